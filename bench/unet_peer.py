"""A U-Net in PyTorch's own idiom, as Plimsoll's family `unet` has it (models/unet.cc), with nnU-Net's
names of tensors; and the loss of segmentation as MONAI defines it (DiceCELoss).
"""
import torch
from torch import nn
from torch.nn import functional as F


class Convolution(nn.Module):
    def __init__(self, volume, inputs, outputs, stride):
        super().__init__()
        conv, norm = ((nn.Conv3d, nn.InstanceNorm3d) if volume else (nn.Conv2d, nn.InstanceNorm2d))
        self.conv = conv(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm = norm(outputs, affine=True)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.01, inplace=True)


class Convolutions(nn.Module):
    def __init__(self, volume, inputs, outputs, stride, count):
        super().__init__()
        self.convs = nn.Sequential(*(
            Convolution(volume, outputs if i else inputs, outputs, 1 if i else stride)
            for i in range(count)))

    def forward(self, x):
        return self.convs(x)


class Encoder(nn.Module):
    def __init__(self, volume, channels, features, count):
        super().__init__()
        inputs = [channels, *features]
        self.stages = nn.Sequential(*(
            nn.Sequential(Convolutions(volume, inputs[i], features[i], 2 if i else 1, count))
            for i in range(len(features))))

    def forward(self, x):
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        return levels


class Decoder(nn.Module):
    def __init__(self, volume, features, classes, count):
        super().__init__()
        transposed, conv = ((nn.ConvTranspose3d, nn.Conv3d) if volume
                            else (nn.ConvTranspose2d, nn.Conv2d))
        up = list(zip(features[:0:-1], features[-2::-1]))  # (from, to), the lowest first
        self.transpconvs = nn.ModuleList(transposed(a, b, 2, 2) for a, b in up)
        self.stages = nn.ModuleList(Convolutions(volume, 2 * b, b, 1, count) for _, b in up)
        # One for each level, as nnU-Net has them for deep supervision; the last one is used.
        self.seg_layers = nn.ModuleDict({str(len(up) - 1): conv(features[0], classes, 1)})

    def forward(self, levels):
        x = levels[-1]
        for up, stage, skip in zip(self.transpconvs, self.stages, levels[-2::-1]):
            x = stage(torch.cat((up(x), skip), 1))
        return self.seg_layers[str(len(self.stages) - 1)](x)


class UNet(nn.Module):
    def __init__(self, volume, channels, classes, levels=5, features=32, most_features=320,
                 convolutions=2):
        super().__init__()
        of_level = [min(features << i, most_features) for i in range(levels)]
        self.encoder = Encoder(volume, channels, of_level, convolutions)
        self.decoder = Decoder(volume, of_level, classes, convolutions)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def dice_cross_entropy(logits, labels, smooth=1e-5):
    """Dice over all classes and cross-entropy; logits [B,K,...], labels [B,...]."""
    logits = logits.float()
    inside = tuple(range(2, logits.dim()))
    p = logits.softmax(1)
    t = F.one_hot(labels, logits.shape[1]).movedim(-1, 1).to(p.dtype)
    dice = 1 - (2 * (p * t).sum(inside) + smooth) / (t.sum(inside) + p.sum(inside) + smooth)
    return dice.mean() + F.cross_entropy(logits, labels)
