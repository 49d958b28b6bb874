"""JAX: transformations, operations and the training of a small network on ``cuda``, compared with NumPy or JAX's CPU.

Products of float32 matrices use ``precision="highest"``: with the default, XLA rounds the factors to TF32 on a GPU.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_default_matmul_precision", "highest")
CPU = jax.devices("cpu")[0]
GPU = jax.devices()[0]
assert GPU.platform == "gpu", f"JAX uses {GPU.platform}"
assert "xla_cpu_multi_thread_eigen" in os.environ["XLA_FLAGS"], "the user's options are kept"


def same(name, function, *arguments, tolerance=2e-5):
    """Checks that ``function``, jitted, has the same results on the two backends."""
    results = []
    for device in (GPU, CPU):
        placed = jax.device_put(arguments, device)
        with jax.default_device(device):
            results.append(jax.tree.leaves(jax.device_get(jax.jit(function)(*placed))))
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=name)


x = np.linspace(-3, 3, 1000, dtype=np.float32)
key = jax.random.key(16)
a = np.asarray(jax.random.normal(key, (48, 48)))

# Values known without JAX.
assert float(jax.jit(lambda n: (n * (n + 1) // 2))(jnp.int32(100))) == 5050
np.testing.assert_allclose(jax.jit(jnp.sin)(x), np.sin(x.astype(np.float64)), rtol=1e-5, atol=1e-6)
np.testing.assert_allclose(jax.grad(lambda v: (v**3).sum())(jnp.float32(2)), 12)
np.testing.assert_array_equal(jnp.sort(jnp.asarray(a.ravel())), np.sort(a.ravel()))
np.testing.assert_allclose(jnp.fft.fft(x), np.fft.fft(x), rtol=1e-3, atol=1e-3)
np.testing.assert_allclose(jnp.matmul(a, a), a.astype(np.float64) @ a, rtol=1e-4, atol=1e-4)

same("elementwise", lambda v: jnp.tanh(v) * jnp.exp(v) + jnp.cos(v), x)
same("reductions", lambda v: (v.sum(), v.max(), jnp.argmin(v), jnp.var(v)), x, tolerance=1e-4)
same("vmap", jax.vmap(lambda row: row @ a), a, tolerance=1e-4)
same("scan", lambda v: jax.lax.scan(lambda sum, one: (sum + one, sum * one), 0.0, v), x, tolerance=1e-3)
same("while", lambda n: jax.lax.while_loop(lambda s: s < n, lambda s: 2 * s + 1, jnp.float32(1)), np.float32(1000))
same("cond", lambda n: jax.lax.cond(n > 3, lambda s: 2 * s, lambda s: s + 1, n), np.float32(7))
same("random", lambda: (jax.random.bits(key, (1000,)), jax.random.uniform(key, (1000,))))
same("scatter", lambda v: v.at[jnp.arange(100) % 7].add(1.0), x)
same("softmax", jax.nn.softmax, a)

images = np.asarray(jax.random.normal(key, (2, 4, 9, 10)))
kernels = np.asarray(jax.random.normal(key, (6, 2, 3, 3)))


def convolution(images, kernels):
    return jax.lax.conv_general_dilated(images, kernels, (2, 1), ((1, 2), (-1, 1)), lhs_dilation=(1, 2),
                                        rhs_dilation=(2, 1), feature_group_count=2)


same("convolution", convolution, images, kernels, tolerance=1e-4)
same("gradient of a convolution", jax.grad(lambda i, k: (convolution(i, k) ** 2).sum(), (0, 1)), images, kernels,
     tolerance=1e-3)

# A network on random data in the form of MNIST.
data = np.asarray(jax.random.uniform(key, (64, 784)))
labels = np.eye(10, dtype=np.float32)[np.arange(64) % 10]


def loss(weights, data, labels):
    for layer in weights[:-1]:
        data = jax.nn.relu(data @ layer)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(data @ weights[-1]) * labels, axis=1))


def training(data, labels, sizes=(784, 64, 10)):
    keys = jax.random.split(key, len(sizes))
    weights = [0.05 * jax.random.normal(k, pair) for k, pair in zip(keys, zip(sizes, sizes[1:]))]

    def step(weights, _):
        value, slopes = jax.value_and_grad(loss)(weights, data, labels)
        return [w - 0.1 * s for w, s in zip(weights, slopes)], value

    return jax.lax.scan(step, weights, length=20)[1]


same("training", training, data, labels, tolerance=1e-3)
print("PASS", GPU.device_kind, jax.__version__)
