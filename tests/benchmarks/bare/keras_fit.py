"""`model.fit` on its own: prints the records a second of the median epoch, once two were run to warm up.

Arguments: the model's file, the file of records, the seconds to train.
"""

import os
import runpy
import statistics
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import tensorflow as tf

from elastic_runtime.data import recordio

path, data, seconds = sys.argv[1:]
module = runpy.run_path(path)
records = recordio.read_range(data, 0, recordio.count(data))
model = module["custom_model"]()
model.compile(module["optimizer"](), module["loss"])
dataset = module["feed"](tf.data.Dataset.from_tensor_slices(records), "training", None)
dataset = dataset.batch(64).prefetch(tf.data.AUTOTUNE)
rates = []
model.fit(dataset, epochs=2, verbose=0, shuffle=False)
end = time.perf_counter() + float(seconds)
while (begin := time.perf_counter()) < end:
    model.fit(dataset, epochs=1, verbose=0, shuffle=False)
    rates.append(len(records) / (time.perf_counter() - begin))
print(statistics.median(rates))
