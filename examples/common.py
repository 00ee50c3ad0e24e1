"""What the examples share: options of the command line, the data, and the bar, curve and closing line of a training
run. What they teach is in the examples themselves."""
import argparse
import time
from pathlib import Path

import facula


def read_options(about, steps, **more):
    """The options of the command line; `more` has those of one example alone, whole numbers by their names."""
    best = "cuda" if facula.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps, help="how long to train")
    parser.add_argument("--seed", type=int, default=1, help="where random numbers begin")
    parser.add_argument("--device", default=best, help="cpu, cuda or cuda:1")
    parser.add_argument("--quiet", action="store_true", help="no bar, no texts, results only")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data", help="where the data is")
    parser.add_argument("--out", type=Path, default=Path("."), help="where the loss curve and the weights go")
    for name, value in more.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=" ")
    options = parser.parse_args()
    options.steps = max(options.steps, 1)
    options.out.mkdir(parents=True, exist_ok=True)
    facula.manual_seed(options.seed)
    return options


class Training:
    """Follows a run: a bar on a terminal, a line now and then elsewhere, at the end the curve as a picture and the line

        loss: first 4.4123 last 1.7012

    with the means of the first and of the last tenth of the steps."""

    def __init__(self, options, name):
        self.options, self.name, self.losses = options, name, []
        self.curve = facula.LossCurve(name)
        self.bar = facula.progress(label=name, total=options.steps, shown=False if options.quiet else None)
        self.begin = time.monotonic()

    def step(self, loss):
        self.losses.append(loss)
        done = len(self.losses)
        self.curve.add("loss", done, loss)
        self.bar.step(loss=loss)
        if not self.options.quiet and done % max(self.options.steps // 10, 1) == 0:
            self.bar.print(f"{self.name}: step {done}, loss {loss:.4f}, {self.seconds:.1f} s")

    def finish(self):
        self.bar.finish()
        picture = self.options.out / f"{self.name}.svg"
        self.curve.save(picture)
        few = max(len(self.losses) // 10, 1)
        print(f"loss: first {sum(self.losses[:few]) / few:.4f} last {sum(self.losses[-few:]) / few:.4f}")
        if not self.options.quiet:
            print(f"{self.seconds:.1f} s of training; loss curve: {picture}")

    @property
    def seconds(self):
        return time.monotonic() - self.begin


class Text:
    """A text as numbers: each letter that occurs in it has one. The last tenth is kept apart, to see how well a model
    does on what it has not read."""

    def __init__(self, path):
        text = Path(path).read_text(encoding="ascii")
        self.letters = "".join(sorted(set(text)))
        self.codes = {letter: code for code, letter in enumerate(self.letters)}
        codes = self.encode(text)
        cut = len(codes) * 9 // 10
        self.train, self.test = codes[:cut], codes[cut:]

    def __len__(self):
        return len(self.letters)

    def encode(self, text):
        return facula.tensor([self.codes[letter] for letter in text])

    def decode(self, codes):
        return "".join(self.letters[code] for code in codes.tolist())


def load_digits(folder, test):
    """Handwritten digits: images of shape (count, 8, 8) with values from 0 to 1, and which digits they show. Every
    fifth one is kept for the test."""
    file = facula.safetensors.load_file(folder / "digits.safetensors")
    chosen = (facula.arange(len(file["labels"])) % 5 == 0) == test
    return file["images"][chosen].float() / 16, file["labels"][chosen].long()
