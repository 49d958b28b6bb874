"""tinygrad: tensors on the device that DEV names against numpy; a training step among them."""

import numpy as np
from tinygrad import Context, Device, Tensor, dtypes
from tinygrad.nn import Linear
from tinygrad.nn.optim import SGD


def main():
    random = np.random.default_rng(8)
    a, b = random.random((2, 64, 64), dtype=np.float32)
    np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a @ b, rtol=1e-4)
    np.testing.assert_allclose(Tensor(a).sum(axis=1).numpy(), a.sum(axis=1), rtol=1e-5)
    soft = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(Tensor(a).softmax().numpy(), soft / soft.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(Tensor(a).argmax(1).numpy(), a.argmax(1))
    np.testing.assert_allclose(Tensor(a).half().realize().float().numpy(), a.astype(np.float16), rtol=0)
    np.testing.assert_array_equal(Tensor.arange(100, dtype=dtypes.int).cumsum().numpy(), np.arange(100).cumsum())

    Tensor.manual_seed(1)
    x = Tensor(random.random((32, 8), dtype=np.float32))
    goal = x.sum(1, keepdim=True)
    layer, losses = Linear(8, 1), []
    optimizer = SGD([layer.weight, layer.bias], lr=0.05)
    with Context(TRAINING=1):
        for _ in range(20):
            loss = ((layer(x) - goal) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] / 10, losses
    print("PASS tinygrad", Device.DEFAULT)


main()
