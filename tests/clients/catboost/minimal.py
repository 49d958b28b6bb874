"""Trains CatBoost with task_type="GPU" and compares the quality with that of task_type="CPU".

CatBoost does not promise equal trees on both: sums of histograms, random numbers and defaults differ. COMMON sets the
options whose defaults differ, and CTR sets the statistics of categories that both support. The error of a model of the
device on rows that training did not see must be at most the error of the CPU's model times 1 + TOLERANCE, plus 0.02.
The data must be hard enough for this bound: a model of labels in random order must have a larger error.
"""

import os
import tempfile

import numpy as np
from catboost import CatBoost, Pool

TOLERANCE = 0.25
ROWS = 1500
TRAIN = 1000
rng = np.random.default_rng(16)
x = rng.normal(size=(ROWS, 8)).astype(np.float32)
signal = x[:, 0] * 2 + np.sin(3 * x[:, 1]) + (x[:, 2] > 0) * x[:, 3]
noisy = signal + rng.normal(scale=0.1, size=ROWS)
binary = (noisy > 0).astype(int)
probability = 1 / (1 + np.exp(-signal))
classes = np.digitize(noisy, [-1.5, 0, 1.5])
counts = rng.poisson(np.exp(signal / 3))
groups = np.arange(ROWS) // 20
relevance = np.digitize(noisy, np.quantile(noisy, [0.4, 0.65, 0.82, 0.93]))
words = ["red", "green", "blue", "fast", "slow", "big", "small"]
texts = [" ".join(rng.choice(words, 4)) + (" good" if b else " bad") for b in binary]
few = rng.integers(0, 4, ROWS)
many = rng.integers(0, 60, ROWS)
one_hot_label = (np.array([-1.5, 1.2, -0.4, 2])[few] + x[:, 0] > 0.3).astype(int)
many_effect = rng.normal(size=60)[many]
ctr_label = (many_effect + 0.3 * few + rng.normal(scale=0.3, size=ROWS) > 0.45).astype(int)
missing = x.copy()
missing[rng.random(x.shape) < 0.2] = np.nan
weights = rng.uniform(0.5, 2, ROWS)

COMMON = dict(
    iterations=25,
    learning_rate=0.2,
    depth=4,
    border_count=128,
    boosting_type="Plain",
    bootstrap_type="No",
    random_strength=0,
    random_seed=16,
    verbose=False,
    allow_writing_files=False,
)
CTR = dict(
    simple_ctr=["Borders:CtrBorderCount=15:Prior=0.5/1", "Buckets:CtrBorderCount=15:Prior=0.5/1"],
    combinations_ctr=["Borders:CtrBorderCount=15:Prior=0.5/1"],
    max_ctr_complexity=2,
)


def table(columns, label, part, cat=None, text=None, group=False, weight=None):
    import pandas as pd

    rows = slice(0, TRAIN) if part == "train" else slice(TRAIN, ROWS)
    return Pool(
        pd.DataFrame(columns).iloc[rows],
        label[rows],
        cat_features=cat,
        text_features=text,
        group_id=groups[rows] if group else None,
        weight=None if weight is None else weight[rows],
    )


def error(model, pool, metric):
    (values,) = model.eval_metrics(pool, [metric]).values()
    value = values[-1]
    gains = ("NDCG", "AUC", "Accuracy", "PFound")
    return 1 - value if metric.startswith(gains) else value


def numbers(values):
    return {f"x{i}": values[:, i] for i in range(values.shape[1])}


def trained(task, loss, train, test, options):
    settings = {**COMMON, "loss_function": loss, **options}
    if task == "CPU":
        settings.pop("devices", None)
        if settings.get("bootstrap_type") == "Poisson":
            settings["bootstrap_type"] = "Bernoulli"
    model = CatBoost({**settings, "task_type": task})
    early = settings.get("od_wait") is not None
    model.fit(train, eval_set=test if early else None)
    return model


def compare(name, label, loss, metric, columns=None, pools=None, **options):
    pools = pools or {}
    columns = columns if columns is not None else numbers(x)
    train = table(columns, label, "train", **pools)
    test = table(columns, label, "test", **pools)
    errors = {}
    for task in "CPU", "GPU":
        model = trained(task, loss, train, test, options)
        errors[task] = error(model, test, metric)
        assert np.isfinite(model.predict(test)).all(), name
    bound = errors["CPU"] * (1 + TOLERANCE) + 0.02
    assert errors["GPU"] <= bound, (name, errors)
    wrong = trained("CPU", loss, table(columns, rng.permutation(label), "train", **pools), test, options)
    assert error(wrong, test, metric) > bound, f"{name}: the data is too easy to show a wrong model"
    print(f"{name}: CPU {errors['CPU']:.4f}, GPU {errors['GPU']:.4f}", flush=True)


compare("RMSE", noisy, "RMSE", "RMSE")
for loss in "MAE", "Quantile:alpha=0.7":
    for leaf in "Exact", "Gradient":
        compare(f"{loss}, {leaf}", noisy, loss, loss, leaf_estimation_method=leaf)
compare("Poisson", counts, "Poisson", "Poisson")
compare("Logloss", binary, "Logloss", "Logloss")
compare("CrossEntropy", probability, "CrossEntropy", "CrossEntropy")
for loss in "MultiClass", "MultiClassOneVsAll":
    compare(loss, classes, loss, "Accuracy")
for loss in "QueryRMSE", "YetiRank", "PairLogit":
    compare(loss, relevance, loss, "NDCG", pools=dict(group=True))
columns = {"few": few, "x0": x[:, 0]}
compare("one-hot", one_hot_label, "Logloss", "Logloss", columns, dict(cat=["few"]), one_hot_max_size=10)
columns = {"few": few, "many": many}
compare("CTR", ctr_label, "Logloss", "Logloss", columns, dict(cat=["few", "many"]), one_hot_max_size=2, **CTR)
compare("text", binary, "Logloss", "Logloss", {"text": texts, "x4": x[:, 4]}, dict(text=["text"]))
for policy in "SymmetricTree", "Depthwise", "Lossguide":
    compare(policy, noisy, "RMSE", "RMSE", grow_policy=policy)
for boosting in "Ordered", "Plain":
    compare(boosting, binary, "Logloss", "Logloss", boosting_type=boosting)
for bootstrap in "Bayesian", "Bernoulli", "Poisson", "MVS", "No":
    compare(f"bootstrap {bootstrap}", binary, "Logloss", "Logloss", bootstrap_type=bootstrap)
compare("weights", noisy, "RMSE", "RMSE", pools=dict(weight=weights))
compare("early stopping", noisy, "RMSE", "RMSE", iterations=60, od_type="Iter", od_wait=5)
for borders in 32, 128, 254:
    compare(f"{borders} borders", noisy, "RMSE", "RMSE", border_count=borders)
compare("missing values", noisy, "RMSE", "RMSE", numbers(missing))
if int(os.environ.get("MARGAY_DEVICES", "1")) > 1:
    compare("two devices", noisy, "RMSE", "RMSE", devices="0:1")

# A training that continues from a snapshot gives the model of one that ran through.
with tempfile.TemporaryDirectory() as folder:
    settings = {**COMMON, "loss_function": "RMSE", "task_type": "GPU", "allow_writing_files": True, "train_dir": folder}
    test = table(numbers(x), noisy, "test")
    train = table(numbers(x), noisy, "train")
    whole = CatBoost(settings).fit(train).predict(test)
    for iterations in 10, 25:
        model = CatBoost({**settings, "iterations": iterations})
        model.fit(train, save_snapshot=True, snapshot_file=f"{folder}/snapshot", snapshot_interval=0)
    np.testing.assert_allclose(model.predict(test), whole, rtol=1e-4, atol=1e-4)
    print("snapshot")

print("PASS: models of the device are as good as those of the CPU")
