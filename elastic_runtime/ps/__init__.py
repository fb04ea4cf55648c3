"""The parameter server, which needs no TensorFlow, and the client that workers reach it with."""
