#!/usr/bin/env python3
"""Makes tests/ops/testdata/*.txt: inputs and results of PyTorch on the CPU, in float64.

Needs torch (written with 2.15; what follows clip.txt with 2.5.1, from conv_transpose2d.txt on with
2.15) and, for Dice losses, MONAI (1.6.1): python3 make_op_golden.py [DIR]. A file is a list of
tensors, each a line "NAME D0 D1 ..." and a line of values. Inputs are float32 values, so that both
precisions of an op can start from them. Last digits of results may depend on the processor.
"""
import pathlib
import sys

import monai.losses
import torch
import torch.nn.functional as nn

torch.set_default_dtype(torch.float64)


def randn(*shape):
    return torch.randn(shape, dtype=torch.float32).double()


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


def convolve(x, weight, bias=None, **window):
    """conv2d or conv3d where images and weight have their channels last."""
    function = nn.conv2d if x.dim() == 4 else nn.conv3d
    return function(x.movedim(-1, 1), weight.movedim(-1, 1), bias, **window).movedim(1, -1)


def convolve_transposed(x, weight, bias=None, **window):
    """conv_transpose2d or conv_transpose3d, likewise; weight is [inputs, kernel ..., outputs]."""
    function = nn.conv_transpose2d if x.dim() == 4 else nn.conv_transpose3d
    return function(x.movedim(-1, 1), weight.movedim(-1, 1), bias, **window).movedim(1, -1)


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


def write_convolutions(directory):
    """Weights are [outputs, kernel ..., inputs of a group]. Not all windows fill the images."""
    def case(name, x, weight, bias=True, **window):
        inputs = {"x": randn(*x), "weight": randn(*weight)}
        if bias:
            inputs["bias"] = randn(weight[0])
        write(directory / f"{name}.txt", differentiate(
            lambda **leaves: convolve(**leaves, **window), inputs))

    case("conv2d", (2, 6, 5, 3), (5, 3, 2, 3), stride=(2, 1), padding=(2, 1))
    case("conv2d_pointwise", (2, 3, 4, 5), (7, 1, 1, 5))
    case("conv2d_dilated_groups", (1, 7, 8, 4), (6, 3, 2, 2), stride=(1, 2), padding=(1, 2),
         dilation=(2, 3), groups=2)
    case("conv2d_depthwise", (1, 5, 6, 10), (10, 3, 3, 1), bias=False, stride=2, padding=1,
         groups=10)
    case("conv3d", (1, 4, 5, 4, 2), (3, 3, 2, 2, 2), stride=(2, 1, 1), padding=(1, 0, 1),
         dilation=(1, 2, 1))


def write_transposed_convolutions(directory):
    def case(name, x, weight, groups=1, **window):
        inputs = {"x": randn(*x), "weight": randn(*weight), "bias": randn(weight[-1] * groups)}
        write(directory / f"{name}.txt", differentiate(
            lambda **leaves: convolve_transposed(**leaves, groups=groups, **window), inputs))

    case("conv_transpose2d", (2, 4, 3, 5), (5, 3, 2, 3), stride=(2, 1), padding=(1, 0),
         output_padding=(1, 0))
    case("conv_transpose2d_groups", (1, 5, 4, 6), (6, 2, 3, 2), groups=2, stride=(3, 2),
         dilation=(1, 2))
    case("conv_transpose3d", (1, 2, 3, 2, 4), (4, 2, 2, 2, 3), stride=2)


def write_instance_norms(directory):
    def norm(x, weight, bias):
        return nn.instance_norm(x.movedim(-1, 1), weight=weight, bias=bias, eps=1e-5).movedim(1, -1)

    inputs = {"x": 2 * randn(3, 2, 3, 2, 9) + 1, "weight": randn(9), "bias": randn(9)}
    write(directory / "instance_norm.txt", differentiate(norm, inputs))
    write(directory / "instance_norm_leaky_relu.txt", differentiate(
        lambda **leaves: nn.leaky_relu(norm(**leaves), 0.01), inputs))


def write_batch_norms(directory):
    shape, channels = (2, 3, 2, 9), 9
    running = {"running_mean": torch.zeros(channels), "running_var": torch.ones(channels)}

    def images():
        return 2 * randn(*shape) + 1

    def norm(x, weight, bias, training=True):
        return pool(nn.batch_norm, x, *running.values(), weight, bias, training, 0.1, 1e-5)

    def inputs():
        return {"x": images(), "weight": randn(channels), "bias": randn(channels)}

    tensors = differentiate(norm, inputs())
    tensors["unbiased"] = tensors["x"].flatten(0, 2).var(0)
    write(directory / "batch_norm.txt", tensors)
    write(directory / "batch_norm_relu.txt", differentiate(
        lambda **leaves: torch.relu(norm(**leaves)), inputs()))

    # Running statistics follow those of two batches; then a third one is normalized by them.
    running["running_mean"], running["running_var"] = torch.zeros(channels), torch.ones(channels)
    tensors = {}
    for step in (1, 2):
        tensors[f"x.{step}"] = images()
        norm(tensors[f"x.{step}"], None, None)
        tensors.update({f"{name}.{step}": state.clone() for name, state in running.items()})
    write(directory / "batch_norm_running.txt", {
        **tensors, **differentiate(lambda **leaves: norm(**leaves, training=False), inputs())})


def labels_of(rows, classes):
    """Labels of which the third and the last are ignored."""
    labels = torch.randint(classes, (rows,))
    labels[[2, -1]] = -100
    return labels


def write_losses(directory):
    # Eight rows have labels, so that float32 holds the factor of a mean.
    rows, classes = 10, 7
    logits, labels = {"logits": 2 * randn(rows, classes)}, labels_of(rows, classes)
    for name, smoothing in (("cross_entropy", 0.0), ("cross_entropy_smoothed", 0.1)):
        write(directory / f"{name}.txt", {"labels": labels, **differentiate(
            lambda logits: nn.cross_entropy(logits, labels, label_smoothing=smoothing), logits)})
    # Two labels, as probabilities. The fifth row has one; a row without a first label is ignored.
    second = torch.randint(classes, (rows,))
    second[4] = -100
    share = torch.rand(rows, dtype=torch.float32).double()
    here = labels >= 0
    both = torch.where(second < 0, labels, second)
    wanted = (share[here, None] * nn.one_hot(labels[here], classes)
              + (1 - share[here, None]) * nn.one_hot(both[here], classes))
    write(directory / "cross_entropy_mixed.txt", {
        "labels": labels, "second": second, "share": share, **differentiate(
            lambda logits: nn.cross_entropy(logits[here], wanted, label_smoothing=0.1), logits)})

    width, classes = 13, 11
    labels = labels_of(rows, classes)
    write(directory / "linear_cross_entropy.txt", {"labels": labels, **differentiate(
        lambda x, weight, bias: nn.cross_entropy(nn.linear(x, weight, bias), labels),
        {"x": randn(rows, width), "weight": randn(classes, width), "bias": randn(classes)})})


def write_dice_losses(directory):
    """Two samples of four voxels a row, three rows, two planes; logits have their classes last."""
    def case(name, classes, loss, ignored=()):
        labels = torch.randint(classes, (2, 2, 3, 4))
        for plane, row, column in ignored:
            labels[:, plane, row, column] = -100
        write(directory / f"{name}.txt", {"labels": labels, **differentiate(
            lambda logits: loss(logits.movedim(-1, 1), labels[:, None]),
            {"logits": 2 * randn(*labels.shape, classes)})})

    def dice(**options):
        return monai.losses.DiceLoss(softmax=True, to_onehot_y=True, **options)

    def squared(logits, labels):
        # MONAI's own one-hot labels are float32, and so are their norms.
        here = nn.one_hot(labels[:, 0], logits.shape[1]).movedim(-1, 1).double()
        return monai.losses.DiceLoss(
            softmax=True, squared_pred=True, smooth_nr=0.25, smooth_dr=0.75)(logits, here)

    def with_cross_entropy(logits, labels):
        return (dice(ignore_index=-100)(logits, labels)
                + nn.cross_entropy(logits, labels[:, 0], ignore_index=-100))

    case("dice", 3, dice())
    case("dice_foreground", 4, dice(include_background=False))
    case("dice_squared", 2, squared)
    case("dice_cross_entropy", 5, monai.losses.DiceCELoss(
        softmax=True, to_onehot_y=True, include_background=False, lambda_dice=0.75, lambda_ce=0.5))
    # As many voxels of both samples are ignored: so the mean over all voxels is that of samples.
    case("dice_ignored", 3, with_cross_entropy, ignored=((0, 0, 1), (1, 2, 3), (1, 1, 0)))


def write_classifier_counts(directory):
    rows, classes = 30, 4
    logits, labels = randn(rows, classes), labels_of(rows, classes)
    here = labels >= 0
    best = logits[here].argmax(1)
    counts = torch.zeros(classes, classes)
    for label, largest in zip(labels[here], best):
        counts[label, largest] += 1
    first_two = logits[here].topk(2).indices
    write(directory / "classifier_counts.txt", {
        "logits": logits, "labels": labels, "confusion": counts, "rows": here.sum(),
        "right": (best == labels[here]).sum(),
        "right_of_two": (first_two == labels[here, None]).sum()})


def write_attention(directory):
    """Four heads, of which two share a head of keys and values; texts of several lengths."""
    heads, kv_heads, head, lengths = 4, 2, 4, torch.tensor([5, 3, 1])
    batch, sequence = len(lengths), 5
    seen = torch.arange(sequence) < lengths[:, None]

    def attend(qkv):
        q, k, v = qkv.unflatten(2, (heads + 2 * kv_heads, head)).transpose(1, 2).split(
            (heads, kv_heads, kv_heads), 1)
        out = nn.scaled_dot_product_attention(q, k, v, seen[:, None, None], enable_gqa=True)
        # Queries of padding have no result.
        return out.transpose(1, 2).flatten(2) * seen[..., None]

    write(directory / "attention_lengths.txt", {"lengths": lengths, **differentiate(
        attend, {"qkv": randn(batch, sequence, (heads + 2 * kv_heads) * head)})})


def write_patches(directory):
    """The patch embedding of a ViT: tokens are the results of a convolution, row by row."""
    def embed(x, weight, bias):
        return convolve(x, weight, bias, stride=2).flatten(1, 2)

    write(directory / "patches.txt", differentiate(
        embed, {"x": randn(2, 4, 6, 3), "weight": randn(5, 2, 2, 3), "bias": randn(5)}))


def write_channels(directory):
    write(directory / "leaky_relu.txt", differentiate(
        lambda x: nn.leaky_relu(x, 0.01), {"x": torch.cat([5 * randn(60), torch.zeros(1)])}))
    write(directory / "concat_channels.txt", differentiate(
        lambda a, b: torch.cat([a, b], -1), {"a": randn(2, 3, 2, 3), "b": randn(2, 3, 2, 5)}))


def write_resizings(directory):
    """Images and volumes to larger and smaller sizes, and to twice the size."""
    linear = {4: "bilinear", 5: "trilinear"}

    def case(name, x, size, **options):
        write(directory / f"resize_{name}.txt", differentiate(
            lambda x: nn.interpolate(x.movedim(-1, 1), size, **options).movedim(1, -1),
            {"x": randn(*x)}))

    kinds = {"images": ((2, 4, 7, 3), (9, 5)), "twice": ((1, 3, 4, 2), (6, 8)),
             "volumes": ((1, 3, 2, 5, 2), (5, 4, 3)), "one_row": ((1, 3, 5, 2), (1, 4))}
    for kind, (x, size) in kinds.items():
        case(f"{kind}_nearest", x, size, mode="nearest")
        for aligned in (False, True):
            case(f"{kind}_linear" + "_aligned" * aligned, x, size, mode=linear[len(x)],
                 align_corners=aligned)
    # Products that float32 rounds below the next pixel.
    case("rounded_nearest", (1, 1, 3, 1), (1, 123), mode="nearest")


def write_binary_cross_entropies(directory):
    """Of one target for all logits, and of targets for each. Both tails are among the logits."""
    logits = torch.cat([4 * randn(4, 6, 1), torch.tensor([[0, 30, -30, 90, -90, 1e-3]]).view(1, 6, 1)])
    logits = logits.float().double()
    smoothed = float(torch.tensor(0.9, dtype=torch.float32))
    targets = {"real": torch.ones(logits.shape), "fake": torch.zeros(logits.shape),
               "smoothed": torch.full(logits.shape, smoothed),
               "each": torch.rand(logits.shape, dtype=torch.float32).double()}
    for name, wanted in targets.items():
        write(directory / f"binary_cross_entropy_{name}.txt", {
            "targets": wanted, "right": ((logits > 0) == (wanted > 0.5)).sum(), **differentiate(
                lambda logits: nn.binary_cross_entropy_with_logits(
                    logits, wanted, reduction="sum"), {"logits": logits})})


def write_spectral_norms(directory):
    """Of a convolution, whose weight has its channels last here, and so has v."""
    def here(weight):
        return weight.movedim(1, -1)

    def v_of(state, weight):
        return here(state._v.view(1, *weight.shape[1:]))[0].clone()

    module = torch.nn.Conv2d(4, 5, (2, 3), bias=False)
    with torch.no_grad():
        module.weight.copy_(randn(*module.weight.shape))
    torch.nn.utils.parametrizations.spectral_norm(module)
    state, weight = module.parametrizations.weight[0], module.parametrizations.weight.original
    with torch.no_grad():
        for vector in (state._u, state._v):
            vector.copy_(nn.normalize(randn(*vector.shape), dim=0).float())
    vectors = {"u": state._u.clone(), "v": v_of(state, weight)}

    # Without an iteration.
    module.eval()
    y = module.weight
    dy = randn(*y.shape)
    y.backward(dy)
    write(directory / "spectral_norm.txt", {
        "weight": here(weight), **vectors, "y": here(y), "dy": here(dy),
        "dweight": here(weight.grad)})

    # With two of them, the second of another weight.
    module.train()
    tensors = {"v.0": vectors["v"]}
    for step in (1, 2):
        with torch.no_grad():
            weight.copy_(randn(*weight.shape))
        tensors.update({f"weight.{step}": here(weight).clone(), f"y.{step}": here(module.weight),
                        f"u.{step}": state._u.clone(), f"v.{step}": v_of(state, weight)})
    write(directory / "power_iteration.txt", tensors)


def write_gemma(directory):
    """Gemma's norm and gated MLP, and soft caps of scores and of logits, as transformers has them."""
    def norm(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + weight)

    write(directory / "rms_norm_unit_offset.txt", differentiate(
        norm, {"x": randn(3, 5, 13), "weight": randn(13) / 4}))
    write(directory / "geglu.txt", differentiate(
        lambda x: nn.gelu(x[..., :11], approximate="tanh") * x[..., 11:], {"x": 2 * randn(5, 22)}))
    write(directory / "softcap.txt", differentiate(
        lambda x: 1.5 * torch.tanh(x / 1.5), {"x": 2 * randn(67)}))
    rows, classes, width = 10, 13, 7
    labels = labels_of(rows, classes)
    write(directory / "linear_cross_entropy_softcap.txt", {"labels": labels, **differentiate(
        lambda x, weight: nn.cross_entropy(2 * torch.tanh(nn.linear(x, weight) / 2), labels),
        {"x": randn(rows, width), "weight": randn(classes, width)})})

    # Queries and keys of three heads, two for each head of keys, a scale of their own and a window.
    batch, sequence, head = 2, 9, 6
    near = torch.ones(sequence, sequence, dtype=torch.bool).tril().triu(-3)

    def attend(qkv):
        q, k, v = qkv.view(batch, sequence, 8, head).transpose(1, 2).split((4, 2, 2), 1)
        k, v = (x.repeat_interleave(2, 1) for x in (k, v))
        scores = 1.2 * torch.tanh(q @ k.transpose(2, 3) * 0.7 / 1.2)
        p = scores.masked_fill(~near, -torch.inf).softmax(-1)
        return (p @ v).transpose(1, 2).reshape(batch, sequence, 4 * head)

    write(directory / "attention_softcap.txt", differentiate(
        attend, {"qkv": randn(batch, sequence, 8 * head)}))


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


def write_scaled_products(directory):
    """8-bit codes with a scale for each tensor, multiplied by torch._scaled_mm."""
    def quantize(x, dtype):
        largest = x.float().abs().max()  # a number divided by a tensor would round twice
        to_code = torch.full_like(largest, torch.finfo(dtype).max) / largest
        return (x.float() * to_code).to(dtype), torch.ones_like(largest) / to_code

    for name, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        x, weight = (randn(rows, 48).bfloat16() for rows in (9, 16))
        (codes, scale), (weight_codes, weight_scale) = quantize(x, dtype), quantize(weight, torch.float8_e4m3fn)
        y = torch._scaled_mm(codes, weight_codes.t(), scale_a=scale, scale_b=weight_scale, out_dtype=torch.bfloat16)
        write(directory / f"scaled_product_{name}.txt", {
            key: tensor.double() for key, tensor in {
                "x": x, "weight": weight, "codes": codes, "weight_codes": weight_codes, "scale": scale,
                "weight_scale": weight_scale, "y": y}.items()})


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
    write_convolutions(directory)
    write_batch_norms(directory)
    write_losses(directory)
    write_classifier_counts(directory)
    write_attention(directory)
    write_patches(directory)

    write(directory / "weight_average.txt", averages(
        multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)))
    # `n` of the formula counts the update before; `averaged` does not.
    write(directory / "weight_average_warmup.txt", averages(
        avg_fn=lambda average, p, averaged: average.lerp(
            p, 1 - min(0.3, (2 + averaged.item()) / (11 + averaged.item())))))
    # Each has a seed of its own, so that a new one leaves the values of the others alone.
    for seed, group in enumerate((write_transposed_convolutions, write_instance_norms,
                                  write_channels, write_dice_losses, write_resizings,
                                  write_binary_cross_entropies, write_spectral_norms,
                                  write_scaled_products, write_gemma), 2):
        torch.manual_seed(seed)
        group(directory)


if __name__ == "__main__":
    main()
