"""A language model of the older kind: an LSTM reads Newton's Opticks and keeps what it read in its state."""
import facula
from facula import nn
from facula.nn import functional as F

from common import Text, Training, read_options


class Model(nn.Module):
    """From letters (batch, length) and what was kept of those before to scores for what comes next, and what to
    keep."""

    def __init__(self, count, width, layers):
        super().__init__()
        self.letters = nn.Embedding(count, width // 4)
        self.lstm = nn.LSTM(width // 4, width, layers, batch_first=True)
        self.head = nn.Linear(width, count)

    def forward(self, codes, state=None):
        seen, state = self.lstm(self.letters(codes), state)
        return self.head(seen), state


@facula.no_grad()
def write(model, text, begin, count, temperature, device):
    """One letter at a time: the state holds the whole past, so nothing is read twice."""
    codes, state = [text.encode(begin).to(device).unsqueeze(0)], None
    for _ in range(count):
        scores, state = model(codes[-1], state)
        codes.append(facula.multinomial(F.softmax(scores[:, -1] / temperature, -1), 1))
    return text.decode(facula.cat(codes, 1)[0])


def main():
    options = read_options(__doc__, steps=400, width=256, layers=2, batch=32, length=64)
    text = Text(options.data / "opticks.txt")
    # The text in `batch` long rows, which are read side by side, `length` letters at a time.
    columns = (len(text.train) - 1) // options.batch
    rows = text.train[:columns * options.batch].view(options.batch, columns).to(options.device)

    model = Model(len(text), options.width, options.layers).to(options.device)
    if not options.quiet:
        print(model)

    optimizer = facula.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = facula.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=options.steps, pct_start=0.1)
    training = Training(options, "lstm")
    at, state = 0, None
    for _ in range(options.steps):
        if at + options.length >= columns:  # from the beginning, without a past
            at, state = 0, None
        optimizer.zero_grad()
        scores, state = model(rows[:, at:at + options.length], state)
        loss = F.cross_entropy(scores.flatten(0, 1), rows[:, at + 1:at + options.length + 1].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        # The state goes on, its history ends here: gradients reach back over `length` letters.
        state = tuple(each.detach() for each in state)
        at += options.length
        training.step(loss.item())
    training.finish()

    if not options.quiet:
        print("\nIt writes:\n" + write(model, text, "\n\nThe Light", 600, 0.7, options.device))


if __name__ == "__main__":
    main()
