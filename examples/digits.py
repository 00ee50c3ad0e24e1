"""Reads handwritten digits with a small convolutional network: a dataset, a loader with worker threads, training, a
test."""
import sys

import facula
from facula import nn
from facula.nn import functional as F
from facula.utils.data import DataLoader, Dataset

from common import Training, load_digits, read_options


class MovedDigits(Dataset):
    """A digit at a time, moved by up to one pixel: the same number, written elsewhere."""

    def __init__(self, images, labels):
        self.images, self.labels = F.pad(images.unsqueeze(1), (1, 1, 1, 1)), labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        down, right = facula.randint(3, (2,)).tolist()
        return self.images[index, :, down:down + 8, right:right + 8], self.labels[index]


def main():
    options = read_options(__doc__, steps=700, want=0)
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10)).to(options.device)
    if not options.quiet:
        print(net)

    loader = DataLoader(MovedDigits(*load_digits(options.data, test=False)), batch_size=64, shuffle=True, num_workers=1,
                        drop_last=True)
    optimizer = facula.optim.AdamW(net.parameters(), lr=2e-3)
    schedule = facula.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    training = Training(options, "digits")
    while len(training.losses) < options.steps:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images.to(options.device)), labels.to(options.device))
            loss.backward()
            optimizer.step()
            schedule.step()
            training.step(loss.item())
            if len(training.losses) == options.steps:
                break
    training.finish()

    images, labels = load_digits(options.data, test=True)
    net.eval()
    with facula.no_grad():
        seen = net(images.unsqueeze(1).to(options.device)).argmax(1).cpu()
    right = (seen == labels).sum().item()
    percent = 100 * right / len(labels)
    print(f"test accuracy: {percent:.2f} % ({right} of {len(labels)})")
    if percent < options.want:
        sys.exit(f"that is less than the {options.want} % that were wanted")


if __name__ == "__main__":
    main()
