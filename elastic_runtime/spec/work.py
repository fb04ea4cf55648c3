"""What a job works on and how: the groups of options that would be the same on any machine."""

from __future__ import annotations

from typing import Literal

from elastic_runtime.spec.flags import JOB, TRAINING, Command, Group, flag
from elastic_runtime.spec.values import Number, Params, Switch, Symbol, Text, Whole

_WITH_MODEL: tuple[Command, ...] = (*JOB, "worker")
_TRAINING_PS: tuple[Command, ...] = (*TRAINING, "ps")

Strategy = Literal["ParameterServerStrategy", "Local", "AllreduceStrategy"]


class Model(Group):
    """The model."""

    model_zoo: Text = flag(
        "", "folder of model modules", takes=_WITH_MODEL, identity=True, shown="this folder"
    )
    model_def: Text = flag(
        "",
        "the model: `folder.file.symbol` in the model zoo, or the path of a Python file, or of a folder that "
        "holds one of its own name",
        takes=_WITH_MODEL,
        required=JOB,
        identity=True,
    )
    model_params: Params = flag(
        "", "keyword arguments of the model's function: `a=1; b=two`", takes=_WITH_MODEL, identity=True
    )
    feed: Symbol = flag("feed", "name of the function that parses records", takes=_WITH_MODEL)
    loss: Symbol = flag("loss", "name of the loss function", takes=_WITH_MODEL)
    optimizer: Symbol = flag("optimizer", "name of the function that makes the optimizer", takes=_WITH_MODEL)
    eval_metrics_fn: Symbol = flag(
        "eval_metrics_fn", "name of the function that makes the metrics", takes=_WITH_MODEL
    )
    callbacks: Symbol = flag("callbacks", "name of the function that makes the callbacks", takes=_WITH_MODEL)
    custom_data_reader: Symbol = flag(
        "custom_data_reader",
        "name of the function that makes the module's own data reader",
        takes=_WITH_MODEL,
    )
    prediction_outputs_processor: Symbol = flag(
        "PredictionOutputsProcessor",
        "name of the class that takes the predictions",
        takes=("predict", "master", "worker"),
    )


class Data(Group):
    """The data."""

    training_data: Text = flag(
        "",
        "folder, file or URI of the records to train on",
        takes=TRAINING,
        required=("train",),
        identity=True,
    )
    validation_data: Text = flag(
        "",
        "folder, file or URI of the records to evaluate on",
        takes=(*TRAINING, "evaluate"),
        required=("evaluate",),
        identity=True,
    )
    prediction_data: Text = flag(
        "",
        "folder, file or URI of the records to predict from",
        takes=("predict", "master"),
        required=("predict",),
        identity=True,
    )
    data_reader_params: Params = flag(
        "", "keyword arguments of the data reader: `k=v; k=v`", takes=JOB, identity=True
    )
    minibatch_size: Whole = flag(64, "records in a minibatch", takes=JOB, ge=1, identity=True)
    num_minibatches_per_task: Whole = flag(
        8, "minibatches in a shard, the unit of work that a worker is given", takes=JOB, ge=1
    )
    records_per_task: Whole | None = flag(
        None,
        "records in a shard, said directly",
        takes=JOB,
        ge=1,
        identity=True,
        shown="minibatch_size x num_minibatches_per_task",
    )
    shuffle_shards: Switch = flag(True, "hand the shards out in random order", takes=TRAINING, identity=True)
    seed: Whole = flag(0, "seed of everything random", takes=JOB, ge=0, identity=True)


class Training(Group):
    """Training."""

    distribution_strategy: Strategy = flag(
        "ParameterServerStrategy", "how workers share the model", takes=JOB, identity=True
    )
    num_epochs: Whole = flag(
        1, "times over the training data; 0 or less: without end", takes=TRAINING, identity=True
    )
    max_step: Whole = flag(
        0, "stop at this model version; 0: at the end of the data", takes=TRAINING, ge=0, identity=True
    )
    use_async: Switch = flag(False, "apply each gradient as it comes", takes=_TRAINING_PS)
    grads_to_wait: Whole | None = flag(
        None,
        "gradients that make one step, in sync mode; what comes later than that is computed again",
        takes=_TRAINING_PS,
        ge=1,
        shown="num_workers",
    )
    sync_version_tolerance: Whole = flag(
        0, "versions by which a gradient may be late, in sync mode", takes=_TRAINING_PS, ge=0
    )
    lr_staleness_modulation: Switch = flag(
        False, "divide the learning rate by a gradient's staleness, in async mode", takes=_TRAINING_PS
    )
    get_model_steps: Whole = flag(
        1, "minibatches between two pulls of the model, in async mode", takes=TRAINING, ge=1
    )
    lr_scaling: Literal["none", "linear", "sqrt"] = flag(
        "none", "how the learning rate follows the number of workers, with AllReduce", takes=TRAINING
    )
    gradient_compression: Literal["none", "fp16"] = flag(
        "none", "how gradients travel, with AllReduce", takes=TRAINING
    )
    collective_timeout: Number = flag(
        30.0,
        "seconds after which a silent worker is given up by the others",
        takes=TRAINING,
        gt=0,
    )
    log_loss_steps: Whole = flag(100, "steps between two loss lines in a worker's log", takes=TRAINING, ge=1)


class Evaluation(Group):
    """Evaluation while training."""

    evaluation_steps: Whole = flag(
        0, "evaluate every so many model versions; 0: not by steps", takes=_TRAINING_PS, ge=0
    )
    evaluation_start_delay_secs: Number = flag(
        100.0, "seconds before the first evaluation by time", takes=TRAINING, ge=0
    )
    evaluation_throttle_secs: Number = flag(
        0.0, "seconds between two evaluations by time; 0: not by time", takes=TRAINING, ge=0
    )


class Checkpoints(Group):
    """Checkpoints and the finished model."""

    checkpoint_steps: Whole = flag(
        0, "save every so many model versions; 0: none while training", takes=_TRAINING_PS, ge=0
    )
    checkpoint_dir: Text = flag("", "folder for checkpoints", takes=TRAINING, shown="checkpoints in run_dir")
    keep_checkpoint_max: Whole = flag(0, "newest checkpoints to keep; 0: all", takes=TRAINING, ge=0)
    checkpoint_dir_for_init: Text = flag(
        "",
        "checkpoint to begin from, a `version-N` folder",
        takes=JOB,
        required=("evaluate", "predict"),
        identity=True,
    )
    output: Text = flag(
        "",
        "folder or URI for the finished model; on this machine `model` in run_dir, unless said",
        takes=TRAINING,
    )
