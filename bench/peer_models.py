"""The models that PyTorch trains beside Plimsoll, written in its own idiom: GPT-2 here (Radford et
al. 2019), Qwen2.5 and BERT from the transformers library, ResNets from torchvision, ViTs from
timm and a U-Net in nnU-Net's form. Attention is scaled_dot_product_attention, which picks a flash kernel on a GPU. Dropout is where
Plimsoll's models have it: on embeddings, attention's probabilities and the results of branches.
"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

GPT2 = {  # layers, width, heads
    "gpt2-124m": (12, 768, 12),
    "gpt2-355m": (24, 1024, 16),
    "gpt2-774m": (36, 1280, 20),
    "gpt2-1558m": (48, 1600, 25),
}
QWEN = {  # layers, width, heads, key-value heads, feed-forward width
    "qwen2.5-0.5b": (24, 896, 14, 2, 4864),
    "qwen2.5-1.5b": (28, 1536, 12, 2, 8960),
}
BERT = {"bert-base": (12, 768, 12), "bert-large": (24, 1024, 16)}
RESNET = {"resnet-18": "resnet18", "resnet-50": "resnet50", "resnet-152": "resnet152"}
VIT = {"vit-tiny": "vit_tiny_patch16_224", "vit-base": "vit_base_patch16_224",
       "vit-large": "vit_large_patch16_224"}
CLASSES = 1000
UNET = {"unet-3d": ((128, 128, 128), 1, 3)}  # sides, channels, classes; five levels of 32 to 320


def sees_images(name):
    return name in RESNET or name in VIT or name in UNET


def is_convolutional(name):
    return name in RESNET or name in UNET


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = nn.Dropout(dropout)
        self.norm_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, sequence, width = x.shape
        parts = self.qkv(self.norm_1(x)).split(width, dim=2)
        q, k, v = (p.view(batch, sequence, self.heads, width // self.heads).transpose(1, 2)
                   for p in parts)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           dropout_p=self.dropout.p if self.training else 0.0)
        x = x + self.dropout(self.proj(a.transpose(1, 2).reshape(batch, sequence, width)))
        return x + self.dropout(self.out(F.gelu(self.fc(self.norm_2(x)), approximate="tanh")))


class Gpt2(nn.Module):
    """The head is tied to the token embedding."""

    def __init__(self, layers, width, heads, vocab, positions, checkpointed=False, dropout=0.0):
        super().__init__()
        self.checkpointed = checkpointed
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(positions, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm_f = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() == 1:
                if name.endswith("bias"):
                    nn.init.zeros_(p)
                continue
            scaled = name.endswith(("proj.weight", "out.weight"))
            nn.init.normal_(p, std=0.02 / (2 * layers) ** 0.5 if scaled else 0.02)

    def forward(self, tokens, targets):
        x = self.dropout(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]])
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        logits = F.linear(self.norm_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    # Names of GPT-2 on the Hugging Face hub; its projections are stored as [in, out].
    HUB = {"norm_1": "ln_1", "qkv": "attn.c_attn", "proj": "attn.c_proj", "norm_2": "ln_2",
           "fc": "mlp.c_fc", "out": "mlp.c_proj"}

    def hub_tensors(self):
        """name on the hub -> (parameter, whether it is stored transposed)"""
        tensors = {"wte.weight": (self.wte.weight, False), "wpe.weight": (self.wpe.weight, False),
                   "ln_f.weight": (self.norm_f.weight, False), "ln_f.bias": (self.norm_f.bias, False)}
        for i, block in enumerate(self.blocks):
            for ours, theirs in self.HUB.items():
                module = getattr(block, ours)
                linear = isinstance(module, nn.Linear)
                tensors[f"h.{i}.{theirs}.weight"] = (module.weight, linear)
                tensors[f"h.{i}.{theirs}.bias"] = (module.bias, False)
        return tensors


def parameters_that_multiply(parameters, positions=0):
    """N of the model FLOPs 6 N: without the position table, which is only added."""
    return parameters - positions


def model_flops_per_token(multiplying, layers, attention_width, sequence):
    """Of forward and backward: 6 N, and 12 L D T / 2 for causal attention (only half of the
    products of queries and keys count). Recomputation does not count."""
    return 6 * multiplying + 6 * layers * attention_width * sequence


def names():
    return [*GPT2, *QWEN, *BERT, *RESNET, *VIT, *UNET]


def has_dropout(name):
    return name in GPT2 or name in BERT or name in VIT


def build(name, vocab, sequence, checkpointed, dropout=0.0):
    """(module called as loss(inputs, targets), model FLOPs per token, or None for images)"""
    if dropout and not has_dropout(name):
        raise ValueError(f"{name} has no dropout")
    if name in UNET:
        return unet(name), None
    if sees_images(name):
        return ClassifierLoss(vision_model(name, checkpointed, dropout)), None
    if name in BERT:
        return bert(name, vocab, sequence, checkpointed, dropout)
    if name in GPT2:
        layers, width, heads = GPT2[name]
        model = Gpt2(layers, width, heads, vocab, sequence, checkpointed, dropout)
        count = sum(p.numel() for p in model.parameters()) - model.wpe.weight.numel()
        return model, model_flops_per_token(count, layers, width, sequence)
    layers, width, heads, kv_heads, ffn = QWEN[name]
    from transformers import Qwen2Config, Qwen2ForCausalLM
    hub = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=vocab, hidden_size=width, intermediate_size=ffn, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=sequence,
        tie_word_embeddings=True, rope_theta=1e6, rms_norm_eps=1e-6, use_cache=False,
        attn_implementation="sdpa"))
    if checkpointed:
        hub.gradient_checkpointing_enable({"use_reentrant": False})
    count = sum(p.numel() for p in hub.parameters())
    return HubLoss(hub), model_flops_per_token(count, layers, width, sequence)


def bert(name, vocab, sequence, checkpointed, dropout):
    layers, width, heads = BERT[name]
    from transformers import BertConfig, BertForMaskedLM
    hub = BertForMaskedLM(BertConfig(
        vocab_size=vocab, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, max_position_embeddings=max(512, sequence),
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        attn_implementation="sdpa"))
    if checkpointed:
        hub.gradient_checkpointing_enable({"use_reentrant": False})
    embeddings = hub.bert.embeddings
    count = sum(p.numel() for p in hub.parameters()) - sum(
        table.weight.numel() for table in (embeddings.position_embeddings,
                                           embeddings.token_type_embeddings))
    # Twice the attention of a causal model.
    return HubLoss(hub), 6 * count + 12 * layers * width * sequence


def vision_model(name, checkpointed, dropout):
    if name in VIT:
        import timm
        model = timm.create_model(VIT[name], num_classes=CLASSES, pos_drop_rate=dropout,
                                  proj_drop_rate=dropout, attn_drop_rate=dropout)
        for block in model.blocks:
            block.mlp.drop1 = nn.Identity()  # only the result of the branch has dropout
        if checkpointed:
            model.set_grad_checkpointing()
        return model
    import torchvision
    model = getattr(torchvision.models, RESNET[name])(num_classes=CLASSES)
    if checkpointed:
        for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
            for i, block in enumerate(stage):
                stage[i] = Checkpointed(block)
    return model.to(memory_format=torch.channels_last)


def unet(name):
    from unet_peer import UNet, dice_cross_entropy

    class Loss(nn.Module):
        def __init__(self, volume, channels, classes):
            super().__init__()
            self.model = UNet(volume, channels, classes)

        def forward(self, images, labels):
            return dice_cross_entropy(self.model(images), labels)

    sides, channels, classes = UNET[name]
    return Loss(len(sides) == 3, channels, classes)


class Checkpointed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


class ClassifierLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, labels):
        return F.cross_entropy(self.model(images).float(), labels)


class HubLoss(nn.Module):
    def __init__(self, hub):
        super().__init__()
        self.hub = hub

    def forward(self, tokens, targets):
        logits = self.hub(tokens).logits
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.view(-1))


def batch(name, rows, sequence, vocab):
    """Random inputs and targets on the default device."""
    if not sees_images(name):
        return (torch.randint(vocab, (rows, sequence)), torch.randint(vocab, (rows, sequence)))
    if name in UNET:
        sides, channels, classes = UNET[name]
        return torch.randn(rows, channels, *sides), torch.randint(classes, (rows, *sides))
    images = torch.randn(rows, 3, 224, 224)
    if name in RESNET:
        images = images.contiguous(memory_format=torch.channels_last)
    return images, torch.randint(CLASSES, (rows,))


def sgd_for(model, lr, momentum=0.9, weight_decay=1e-4):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum,
                           weight_decay=weight_decay, fused=True)


def optimizer_for(model, lr, betas=(0.9, 0.95), weight_decay=0.1):
    """Fused AdamW; weight decay on tensors of rank 2 and more, as Plimsoll's default."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": weight_decay},
                              {"params": vectors, "weight_decay": 0.0}],
                             lr=lr, betas=betas, eps=1e-8, fused=True)
