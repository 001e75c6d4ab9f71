"""The batches that Plimsoll's source masked_text (data/texts/masked_source.cc) makes of a token
file, made again in Python, so that another program trains on the same texts with the same masks:
texts one by one, no whole words, the default shares of masks and random tokens.
"""
import math
import pathlib

IGNORED = -100  # a target without loss
FRACTION, MASK_SHARE, RANDOM_SHARE = 0.15, 0.8, 0.1

_BITS = (1 << 64) - 1


# --- base/random.h ----------------------------------------------------------------------------------

def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _BITS
    return x ^ (x >> 31)


def hash_of(a, *rest):
    for b in rest:
        a = mix(mix((a + 0x9E3779B97F4A7C15) & _BITS) ^ b)
    return a


def below(random, bound):
    return (random * bound) >> 64


class Permutation:
    """Of 0 … n − 1."""

    def __init__(self, n, key):
        self.n, self.key = n, key
        bits = 1 if n <= 2 else (n - 1).bit_length()
        self.half = (bits + 1) // 2

    def __call__(self, i):
        while True:
            i = self._encrypt(i)
            if i < self.n:
                return i

    def _encrypt(self, x):
        mask = (1 << self.half) - 1
        left, right = x >> self.half, x & mask
        for number in range(6):
            left, right = right, left ^ (hash_of(self.key, number, right) & mask)
        return (left << self.half) | right


# --- data/texts/masked_text.cc and masked_source.cc ------------------------------------------------

class Vocabulary:
    """Of a WordPiece vocabulary's folder, or its vocab.txt."""

    def __init__(self, path):
        path = pathlib.Path(path)
        lines = (path / "vocab.txt" if path.is_dir() else path).read_text().splitlines()
        ids = {line: i for i, line in enumerate(lines)}
        self.size = len(lines)
        self.pad, self.start, self.separator, self.mask = (
            ids[token] for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]"))
        self.special = sorted({self.pad, self.start, self.separator, self.mask}
                              | ({ids["[UNK]"]} if "[UNK]" in ids else set()))


class MaskedBatches:
    def __init__(self, stream, vocabulary, sequence, seed):
        """`stream`: tokens of documents, each with the separator behind it."""
        self.stream, self.vocabulary, self.sequence, self.seed = stream, vocabulary, sequence, seed
        self.room = sequence - 2
        self.size = len(stream) - (int(stream[-1]) == vocabulary.separator)
        self.pieces = -(-self.size // self.room)

    def sample(self, number):
        """(tokens, targets) of sample `number` of the run, lists of `sequence` ids."""
        epoch, place = divmod(number, self.pieces)
        piece = Permutation(self.pieces, hash_of(self.seed, 1, epoch))(place)
        v = self.vocabulary
        begin = piece * self.room
        text = [int(t) for t in self.stream[begin: min(begin + self.room, self.size)]]
        tokens = [v.start, *text, v.separator]
        targets = self._mask(hash_of(hash_of(self.seed, 2, number), 1), tokens)
        missing = self.sequence - len(tokens)
        return tokens + [v.pad] * missing, targets + [IGNORED] * missing

    def _mask(self, key, tokens):
        """Replaces tokens in place; returns the targets."""
        special = set(self.vocabulary.special)
        targets = [IGNORED] * len(tokens)
        left = sum(token not in special for token in tokens)
        if left == 0:
            return targets
        wanted = min(max(math.floor(FRACTION * left + 0.5), 1), left)
        choice = hash_of(key, 1)
        for i, token in enumerate(tokens):
            if token in special:
                continue
            chosen = below(hash_of(choice, i), left) < wanted
            left -= 1
            if chosen:
                wanted -= 1
                targets[i] = token
                tokens[i] = self._replaced(hash_of(key, i), token)
        return targets

    def _replaced(self, key, token):
        kind = (hash_of(key, 2) >> 11) * 2.0 ** -53
        if kind < MASK_SHARE:
            return self.vocabulary.mask
        if kind >= MASK_SHARE + RANDOM_SHARE:
            return token
        drawn = below(hash_of(key, 3), self.vocabulary.size - len(self.vocabulary.special))
        for special in self.vocabulary.special:
            drawn += drawn >= special
        return drawn
