"""ResNet-18, or -50 with --depth 50, reads digits in small coloured pictures."""
import facula
from facula import nn
from facula.nn import functional as F

from common import Training, load_digits, read_options


def conv(start, to, kernel, stride=1):
    return nn.Conv2d(start, to, kernel, stride, padding=kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    """What a block computes is added to its input, which passes it as it is, or through a 1 x 1 convolution where the
    shape changes. The block of ResNet-18 has two convolutions of 3 x 3; that of ResNet-50 narrows, convolves, and
    widens again."""

    def __init__(self, start, width, stride, bottleneck):
        super().__init__()
        if bottleneck:
            to = 4 * width
            convs = [conv(start, width, 1), conv(width, width, 3, stride), conv(width, to, 1)]
        else:
            to = width
            convs = [conv(start, width, 3, stride), conv(width, to, 3)]
        layers = [layer for each in convs for layer in (each, nn.BatchNorm2d(each.out_channels), nn.ReLU())]
        self.body = nn.Sequential(*layers[:-1])
        same = stride == 1 and start == to
        self.shortcut = nn.Identity() if same else nn.Sequential(conv(start, to, 1, stride), nn.BatchNorm2d(to))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet(depth, width, classes):
    """With the stem for small pictures: no pooling, and no stride in the first layers."""
    if depth not in (18, 50):
        raise ValueError(f"resnet: --depth must be 18 or 50, got {depth}")
    counts, bottleneck = ((2, 2, 2, 2), False) if depth == 18 else ((3, 4, 6, 3), True)
    layers, start = [conv(3, width, 3), nn.BatchNorm2d(width), nn.ReLU()], width
    for stage, count in enumerate(counts):
        for i in range(count):
            layers.append(ResidualBlock(start, width, 2 if stage > 0 and i == 0 else 1, bottleneck))
            start = 4 * width if bottleneck else width
        width *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(start, classes))


def paint(digits):
    """Pictures (count, 3, 32, 32): each digit is enlarged, moved a little, and drawn in a light colour on a dark one,
    with noise."""
    count, where = len(digits), {"device": digits.device}
    large = digits.repeat_interleave(3, 1).repeat_interleave(3, 2)  # 24 x 24
    wide = F.pad(large, (6, 6, 6, 6))  # 36 x 36, of which 32 x 32 are seen
    rows, columns = (facula.randint(5, (count, 1), **where) + facula.arange(32, **where) for _ in range(2))
    ink = wide[facula.arange(count, **where).view(-1, 1, 1), rows.unsqueeze(2), columns.unsqueeze(1)].unsqueeze(1)
    back, front = 0.4 * facula.rand(count, 3, 1, 1, **where), 1 - 0.4 * facula.rand(count, 3, 1, 1, **where)
    return back + (front - back) * ink + 0.1 * facula.randn(count, 3, 32, 32, **where)


def main():
    options = read_options(__doc__, steps=200, depth=18, width=64, batch=32)
    images, labels = (each.to(options.device) for each in load_digits(options.data, test=False))
    net = resnet(options.depth, options.width, 10).to(options.device)
    if not options.quiet:
        print(f"ResNet-{options.depth} with {sum(p.numel() for p in net.parameters())} parameters on {options.device}")

    optimizer = facula.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = facula.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=options.steps, pct_start=0.2)
    training = Training(options, "resnet")
    for _ in range(options.steps):
        chosen = facula.randint(len(labels), (options.batch,), device=options.device)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(paint(images[chosen])), labels[chosen])
        loss.backward()
        optimizer.step()
        schedule.step()
        training.step(loss.item())
    training.finish()

    images, labels = load_digits(options.data, test=True)
    net.eval()
    with facula.no_grad():
        seen = net(paint(images.to(options.device))).argmax(1).cpu()
    print(f"test accuracy: {100 * (seen == labels).float().mean().item():.2f} %")


if __name__ == "__main__":
    main()
