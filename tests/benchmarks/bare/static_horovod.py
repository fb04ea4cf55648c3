"""A plain Horovod program, as its manual has it: each of two processes trains on its half of the records.

Arguments: rank, size, store, port, the model's file, the file of records, records a batch, seconds. Prints
this process's records a second.
"""

import os
import runpy
import sys
import time

import horovod.tensorflow as hvd
import tensorflow as tf

from elastic_runtime.data import recordio

rank, size, store, _, path, data, batch, seconds = sys.argv[1:]
host, port = store.split(":")
os.environ.update(
    HOROVOD_RANK=rank,
    HOROVOD_SIZE=size,
    HOROVOD_HOSTNAME=f"member-{rank}",
    HOROVOD_CONTROLLER="gloo",
    HOROVOD_CPU_OPERATIONS="gloo",
    HOROVOD_GLOO_IFACE="lo",
    HOROVOD_GLOO_RENDEZVOUS_ADDR=host,
    HOROVOD_GLOO_RENDEZVOUS_PORT=port,
)
hvd.init()
module = runpy.run_path(path)
count = recordio.count(data) // hvd.size()
records = recordio.read_range(data, hvd.rank() * count, (hvd.rank() + 1) * count)
dataset = module["feed"](tf.data.Dataset.from_tensor_slices(records), "training", None)
dataset = dataset.batch(int(batch), drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)
model, optimizer, loss_of = module["custom_model"](), module["optimizer"](), module["loss"]
optimizer.build(model.trainable_variables)


@tf.function
def step(features, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(loss_of(labels, model(features, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    averaged = [hvd.allreduce(gradient, op=hvd.Average) for gradient in gradients]
    optimizer.apply_gradients(zip(averaged, model.trainable_variables, strict=True))
    return loss


batches = iter(dataset)
step(*next(batches))
for variable in [*model.variables, *optimizer.variables]:
    variable.assign(hvd.broadcast(variable.value, 0))
for _ in range(20):
    step(*next(batches))
# Both stop after the same step: whether time is up is decided by rank 0.
steps, begin, go_on = 0, time.perf_counter(), True
while go_on:
    for _ in range(10):
        step(*next(batches)).numpy()
        steps += 1
    mine = tf.constant(time.perf_counter() - begin < float(seconds))
    go_on = bool(hvd.broadcast(tf.cast(mine, tf.int32), 0).numpy())
print(steps * int(batch) / (time.perf_counter() - begin), flush=True)
os._exit(0)
