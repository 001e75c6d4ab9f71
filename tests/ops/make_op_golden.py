#!/usr/bin/env python3
"""Makes tests/ops/testdata/*.txt: inputs and results of PyTorch on the CPU, in float64.

Needs torch (written with 2.15; what follows clip.txt with 2.5.1): python3 make_op_golden.py [DIR]. A
file is a list of tensors, each a line "NAME D0 D1 ..." and a line of values. Inputs are float32
values, so that both precisions of an op can start from them.
"""
import pathlib
import sys

import torch
import torch.nn.functional as nn

torch.set_default_dtype(torch.float64)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float32).double()


def write(path, tensors):
    with open(path, "w") as out:
        for name, tensor in tensors.items():
            tensor = tensor.detach()
            print(name, *tensor.shape, file=out)
            print(*(f"{v:.17g}" for v in tensor.flatten().tolist()), file=out)


def differentiate(function, inputs):
    """The result of function(**inputs), and the gradients for a random dy."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
    y = function(**leaves)
    dy = randn(*y.shape)
    y.backward(dy)
    return {**inputs, "y": y, "dy": dy, **{"d" + name: leaf.grad for name, leaf in leaves.items()}}


def pool(function, x, *args, **kwargs):
    """A pooling function of NCHW applied to images in NHWC."""
    return function(x.permute(0, 3, 1, 2), *args, **kwargs).permute(0, 2, 3, 1)


def max_positions(x, kernel, stride, pad):
    """Where in its window, counted row by row, each maximum lies."""
    width = x.shape[2]
    index = pool(lambda x: nn.max_pool2d(x, kernel, stride, pad, return_indices=True)[1], x)
    top = torch.arange(index.shape[1]).view(1, -1, 1, 1) * stride[0] - pad[0]
    left = torch.arange(index.shape[2]).view(1, 1, -1, 1) * stride[1] - pad[1]
    return (index // width - top) * kernel[1] + index % width - left


def optimizer_steps(make, slots):
    """Five updates of one parameter; gradients, and parameter and state after each."""
    parameter = torch.nn.Parameter(randn(11))
    optimizer = make([parameter])
    tensors = {"p.0": parameter.clone()}
    for step in range(1, 6):
        parameter.grad = randn(11)
        tensors[f"g.{step}"] = parameter.grad.clone()
        optimizer.step()
        tensors[f"p.{step}"] = parameter.clone()
        for slot, key in slots.items():
            tensors[f"{slot}.{step}"] = optimizer.state[parameter][key].clone()
    return tensors


def averages(**kwargs):
    """The averages of a weight after each of five updates."""
    module = torch.nn.ParameterList([torch.zeros(11)])
    averaged = torch.optim.swa_utils.AveragedModel(module, **kwargs)
    tensors = {}
    for step in range(1, 6):
        module[0].data = randn(11)
        averaged.update_parameters(module)
        tensors[f"p.{step}"] = module[0].clone()
        tensors[f"average.{step}"] = averaged.module[0].clone()
    return tensors


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "testdata")
    directory.mkdir(exist_ok=True)
    torch.manual_seed(1)
    width = 13
    write(directory / "layer_norm.txt", differentiate(
        lambda x, weight, bias: nn.layer_norm(x, (width,), weight, bias, 1e-5),
        {"x": 2 * randn(6, width) + 1, "weight": randn(width), "bias": randn(width)}))
    write(directory / "rms_norm.txt", differentiate(
        lambda x, weight: nn.rms_norm(x, (width,), weight, 1e-5),
        {"x": 2 * randn(6, width), "weight": randn(width)}))
    # Both tails, where the result is tiny or equals the input, and the middle.
    x = torch.cat([torch.linspace(-12, 12, 49), randn(30)]).float().double()
    for approximate in ("tanh", "none"):
        write(directory / f"gelu_{approximate}.txt", differentiate(
            lambda x: nn.gelu(x, approximate=approximate), {"x": x}))
    write(directory / "silu.txt", differentiate(lambda x: nn.silu(x), {"x": x}))
    write(directory / "swiglu.txt", differentiate(
        lambda x: nn.silu(x[:, :7]) * x[:, 7:], {"x": randn(5, 14)}))

    # lr is a float32 value, the form in which an update receives it.
    lr = float(torch.tensor(3e-3, dtype=torch.float32))
    write(directory / "adamw.txt", optimizer_steps(
        lambda p: torch.optim.AdamW(p, lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
        {"m": "exp_avg", "v": "exp_avg_sq"}))
    for name, nesterov in (("sgd", False), ("sgd_nesterov", True)):
        write(directory / f"{name}.txt", optimizer_steps(
            lambda p: torch.optim.SGD(p, lr=lr, momentum=0.9, weight_decay=0.1, nesterov=nesterov),
            {"momentum": "momentum_buffer"}))
    # Two gradients clipped to a total norm of 1.
    parameters = [torch.nn.Parameter(torch.zeros(n)) for n in (7, 5)]
    tensors = {}
    for i, parameter in enumerate(parameters):
        parameter.grad = randn(*parameter.shape)
        tensors[f"g.{i}"] = parameter.grad.clone()
    tensors["norm"] = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    for i, parameter in enumerate(parameters):
        tensors[f"clipped.{i}"] = parameter.grad
    write(directory / "clip.txt", tensors)

    # Their backward ops read y.
    for name in ("relu", "sigmoid", "tanh"):
        write(directory / f"{name}.txt", differentiate(getattr(torch, name), {"x": x}))

    # Windows of 3 x 2 elements, 2 x 1 apart, over padded images that they do not fill.
    window = ((3, 2), (2, 1), (1, 1))
    images = {"x": randn(2, 6, 5, 3)}
    tensors = differentiate(lambda x: pool(nn.max_pool2d, x, *window), images)
    tensors["index"] = max_positions(images["x"], *window).double()
    write(directory / "max_pool2d.txt", tensors)
    for name, padded in (("avg_pool2d", True), ("avg_pool2d_without_padding", False)):
        write(directory / f"{name}.txt", differentiate(
            lambda x: pool(nn.avg_pool2d, x, *window, count_include_pad=padded), images))
    write(directory / "global_avg_pool.txt", differentiate(
        lambda x: pool(nn.adaptive_avg_pool2d, x, 1)[:, 0, 0], images))

    write(directory / "group_norm.txt", differentiate(
        lambda x, weight, bias: pool(nn.group_norm, x, 3, weight, bias, 1e-5),
        {"x": 2 * randn(2, 4, 5, 6) + 1, "weight": randn(6), "bias": randn(6)}))

    write(directory / "weight_average.txt", averages(
        multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)))
    # `n` of the formula counts the update before; `averaged` does not.
    write(directory / "weight_average_warmup.txt", averages(
        avg_fn=lambda average, p, averaged: average.lerp(
            p, 1 - min(0.3, (2 + averaged.item()) / (11 + averaged.item())))))


if __name__ == "__main__":
    main()
