"""The fused cells of LSTM and GRU networks, forward and backward."""

import torch


def _gates(input_gates, hidden_gates, input_bias, hidden_bias):
    if input_bias is None:
        return input_gates, hidden_gates
    return input_gates + input_bias, hidden_gates + hidden_bias


def lstm(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    """Returns the hidden state, the cell state, and the activated gates, which the backward formula needs."""
    left, right = _gates(input_gates, hidden_gates, input_bias, hidden_bias)
    enter, forget, candidate, leave = (left + right).chunk(4, 1)
    enter, forget, leave = enter.sigmoid(), forget.sigmoid(), leave.sigmoid()
    candidate = candidate.tanh()
    state = forget * cell + enter * candidate
    return leave * state.tanh(), state, torch.cat([enter, forget, candidate, leave], 1)


def lstm_backward(grad_hidden, grad_state, cell, state, gates, has_bias):
    """Returns the gradients of the gates, the previous cell state and the biases."""
    if grad_hidden is None and grad_state is None:
        return None, None, None
    enter, forget, candidate, leave = gates.chunk(4, 1)
    squashed = state.tanh()
    grad_hidden = torch.zeros_like(state) if grad_hidden is None else grad_hidden
    through = grad_hidden * leave * (1 - squashed * squashed)
    if grad_state is not None:
        through = through + grad_state
    grad_gates = torch.cat(
        [
            through * candidate * enter * (1 - enter),
            through * cell * forget * (1 - forget),
            through * enter * (1 - candidate * candidate),
            grad_hidden * squashed * leave * (1 - leave),
        ],
        1,
    )
    return grad_gates, through * forget, grad_gates.sum(0) if has_bias else None


def gru(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    """Returns the hidden state, and what the backward formula needs."""
    left, right = _gates(input_gates, hidden_gates, input_bias, hidden_bias)
    left_reset, left_update, left_new = left.chunk(3, 1)
    right_reset, right_update, right_new = right.chunk(3, 1)
    reset, update = (left_reset + right_reset).sigmoid(), (left_update + right_update).sigmoid()
    new = (left_new + reset * right_new).tanh()
    return new + update * (hidden - new), torch.cat([reset, update, new, hidden, right_new], 1)


def gru_backward(grad, workspace, has_bias):
    """Returns the gradients of both gates, the previous hidden state and both biases."""
    reset, update, new, hidden, right_new = workspace.chunk(5, 1)
    grad_new = grad * (1 - update) * (1 - new * new)
    grad_update = grad * (hidden - new) * update * (1 - update)
    grad_reset = grad_new * right_new * reset * (1 - reset)
    left = torch.cat([grad_reset, grad_update, grad_new], 1)
    right = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    biases = (left.sum(0), right.sum(0)) if has_bias else (None, None)
    return left, right, grad * update, *biases


def flatten_weight(weights, *others):
    """Returns one tensor that contains all weights of a network, which become views of it."""
    flat = torch.cat([weight.detach().reshape(-1) for weight in weights])
    with torch.no_grad():
        for weight, part in zip(weights, flat.split([weight.numel() for weight in weights])):
            weight.set_(part.view(weight.size()))
    return flat


TABLE = {
    "_thnn_fused_lstm_cell": lstm,
    "_thnn_fused_lstm_cell_backward_impl": lstm_backward,
    "_thnn_fused_gru_cell": gru,
    "_thnn_fused_gru_cell_backward": gru_backward,
}
