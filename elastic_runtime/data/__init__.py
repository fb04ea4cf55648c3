"""Records: the RecordIO codec, readers by URI, the tf.train.Example wire form, and converters into both.

Nothing here imports TensorFlow. Files come in as plain paths or URIs; records leave as `bytes`.
"""
