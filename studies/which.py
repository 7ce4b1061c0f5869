"""The picture "which method when" of docs/networks.md.

``python studies/which.py`` draws docs/figures/which.png.
"""

from __future__ import annotations

from pathlib import Path

from decoupled_descent.plotting.style import new_figure, save_figure

OUT = Path(__file__).parents[1] / "docs" / "figures" / "which.png"
#: Questions from top to bottom, with the answer for "yes": a title and a line of code.
QUESTIONS = [
    ("A table, or fixed embeddings?", "default estimator", "dd.DecoupledClassifier().fit(X, y)"),
    (
        "Up to about 1,000 rows and\na few thousand trainable weights?",
        "path leave-one-out",
        'dd.fit(X, y, network, loss="logistic")',
    ),
    (
        "Your own optimiser, dropout,\naugmentation, a larger network?",
        "stacked folds",
        "dd.CrossFit(network, criterion, optimizer)",
    ),
    (
        "A wide first layer, correlated columns,\ncost of gradient descent?",
        "orthogonal descent",
        "dd.OrthogonalDecoupledDescent(lr)",
    ),
    (
        "Uncorrelated columns, as in the paper?",
        "decoupled descent",
        "dd.DecoupledDescent(lr)\ndd.GradientDescent(lr, estimate=True)",
    ),
]


def draw() -> None:
    figure, axes = new_figure()
    figure.set_size_inches(8, 5.2)
    ax = axes[0, 0]
    ax.axis("off")
    ax.set(xlim=(0, 10), ylim=(-5.2, 0.8))
    question = {"boxstyle": "round,pad=0.5", "fc": "#F2F2F2", "ec": "#888888"}
    arrow = {"arrowstyle": "->", "color": "#555555", "shrinkA": 2, "shrinkB": 2}
    for k, (asked, title, code) in enumerate(QUESTIONS):
        y = -1.15 * k
        ax.text(2.3, y, asked, ha="center", va="center", fontsize=9.5, bbox=question)
        ax.text(5.6, y + 0.17, title, va="center", fontsize=10.5, weight="bold", color="#0072B2")
        ax.text(5.6, y - 0.2, code, va="center", fontsize=8.5, family="monospace")
        ax.annotate("", (5.4, y), (4.55, y), arrowprops=arrow)
        ax.text(4.97, y + 0.12, "yes", ha="center", fontsize=8.5, color="#555555")
        if k + 1 < len(QUESTIONS):
            ax.annotate("", (2.3, y - 0.75), (2.3, y - 0.4), arrowprops=arrow)
            ax.text(2.42, y - 0.6, "no", fontsize=8.5, color="#555555")
    save_figure(figure, OUT)


if __name__ == "__main__":
    draw()
