#!/usr/bin/env python3
"""Plots perplexity over size of models, to choose a quantization. A notebook as a script: each `# %%` is a cell.

    perplexity_over_size.py TEXT MODEL… [-o plot.svg] [--windows N]

The models should be forms of one (`cria quantize`, `cria sweep`): perplexities of different vocabularies are not comparable. Prints a
table; draws it too, where matplotlib is (apt install python3-matplotlib).
"""

# %% What is asked for
import argparse
import pathlib
from typing import List, Tuple

import cria

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("text", type=pathlib.Path)
parser.add_argument("models", nargs="+", type=pathlib.Path)
parser.add_argument("-o", "--output", help="file of the plot: .svg, .png, .pdf")
parser.add_argument("--windows", type=int, default=40, help="of the text, at most (%(default)s)")
parser.add_argument("--window", type=int, default=512, help="tokens of a window (%(default)s)")
args = parser.parse_args()

# %% Measure: windows of one model are evaluated two at a time
points: List[Tuple[str, float, cria.Perplexity]] = []  # name, MiB
text = args.text.read_bytes()
for file in args.models:
    with cria.Model(file, n_ctx=args.window, sequences=2) as model:
        points.append((file.stem, file.stat().st_size / 2**20, model.perplexity(text, window=args.window, max_windows=args.windows)))
points.sort(key=lambda point: point[1])

# %% Table
width = max(len(name) for name, _, _ in points)
print(f"{'model':{width}}  {'MiB':>9}  {'perplexity':>12}  {'±':>8}")
for name, size, perplexity in points:
    print(f"{name:{width}}  {size:9.2f}  {perplexity.value:12.4f}  {perplexity.standard_error:8.4f}")

# %% Plot
if args.output:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("perplexity_over_size.py: -o needs matplotlib (apt install python3-matplotlib)")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    values = [perplexity.value for _, _, perplexity in points]
    axes.plot([size for _, size, _ in points], values, "o-")
    for name, size, perplexity in points:
        axes.annotate(name, (size, perplexity.value), textcoords="offset points", xytext=(6, 6), fontsize=8)
    axes.set_xlabel("MiB")
    axes.set_ylabel(f"perplexity ({points[0][2].windows} windows of {args.window} tokens)")
    figure.tight_layout()
    figure.savefig(args.output)
