"""A small GPT learns to write like Isaac Newton, letter by letter: trains, saves, loads into a fresh model, writes."""
import sys

import facula
from facula import nn
from facula.nn import functional as F

from common import Text, Training, read_options


class Block(nn.Module):
    """One layer: every letter looks back at those before it, then thinks about what it saw."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.attend(self.norm1(x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.shrink(F.gelu(self.grow(self.norm2(x))))


class GPT(nn.Module):
    """From letters (batch, length) to a score for each letter that could come next (batch, length, letters)."""

    def __init__(self, letters, context, width, heads, layers):
        super().__init__()
        self.context = context
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)
        # Small weights; what is added to the stream of all layers is smaller still, so that it does not grow with their
        # number.
        for name, parameter in self.named_parameters():
            adds = name.endswith(("project.weight", "shrink.weight"))
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 0.02 / (2 * layers) ** 0.5 if adds else 0.02)

    def forward(self, codes):
        x = self.letters(codes) + self.places(facula.arange(codes.shape[1], device=codes.device))
        return self.head(self.norm(self.blocks(x)))


def loss_on(model, text, batch):
    """The loss on pieces of the text, drawn at random: each letter is to be told from those before it."""
    starts = facula.randint(len(text) - model.context, (batch, 1), device=text.device)
    pieces = text[starts + facula.arange(model.context + 1, device=text.device)]
    scores = model(pieces[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())


@facula.no_grad()
def test_loss(model, text):
    facula.manual_seed(1234)  # the same pieces for every model
    return sum(loss_on(model, text, 16).item() for _ in range(8)) / 8


@facula.no_grad()
def write(model, text, begin, count, temperature, device):
    """Goes on from `begin`: draws each letter by the probabilities that the model gives; a low temperature prefers
    likely ones."""
    codes = text.encode(begin).to(device).unsqueeze(0)
    for _ in range(count):
        scores = model(codes[:, -model.context:])[:, -1]
        codes = facula.cat([codes, facula.multinomial(F.softmax(scores / temperature, -1), 1)], 1)
    return text.decode(codes[0])


def main():
    options = read_options(__doc__, steps=1000, layers=4, width=128, context=128, batch=16, letters=600)
    text = Text(options.data / "opticks.txt")
    train, test = text.train.to(options.device), text.test.to(options.device)

    def new_model():
        return GPT(len(text), options.context, options.width, 4, options.layers).to(options.device)

    model = new_model()
    if not options.quiet:
        parameters = sum(parameter.numel() for parameter in model.parameters())
        print(f"A GPT of {options.layers} layers and {parameters} parameters reads Newton's Opticks, {len(train)} "
              f"letters, on {options.device}")

    optimizer = facula.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = facula.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=options.steps, pct_start=0.1)
    training = Training(options, "gpt")
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = loss_on(model, train, options.batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        training.step(loss.item())
    training.finish()

    path = options.out / "gpt.safetensors"
    facula.save(model.state_dict(), path)
    fresh = new_model()
    fresh.load_state_dict(facula.load(path))
    before, after = test_loss(model, test), test_loss(fresh, test)
    print(f"loss on unseen text: {before:.4f}; after loading {path} into a fresh model: {after:.4f}")
    if before != after:
        sys.exit(1)

    if not options.quiet:
        facula.manual_seed(options.seed)
        print("\nIt writes:\n" + write(fresh, text, "\n\nThe Light", options.letters, 0.8, options.device))


if __name__ == "__main__":
    main()
