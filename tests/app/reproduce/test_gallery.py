"""The page with all figures: self-contained, escaped, and honest about what is missing."""

import base64

from decoupled_descent.app.reproduce import Reproduced, xor
from decoupled_descent.app.reproduce.gallery import write_gallery


def test_page(tmp_path):
    picture = tmp_path / "xor.png"
    picture.write_bytes(b"\x89PNG and so on")
    summary = {"settings": {"n": 3, "lr": 0.5}, "findings": "train < test & so on"}
    done = Reproduced(xor.XOR, summary, (picture, tmp_path / "xor.svg"))
    page = write_gallery(tmp_path, [done], {"mnist": 'no "MNIST" in <folder>'})
    assert page == tmp_path / "index.html"
    text = page.read_text(encoding="utf-8")
    assert f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}" in text
    assert "<p>train &lt; test &amp; so on</p>" in text
    assert "n = 3, lr = 0.5" in text
    assert "Left out: no &quot;MNIST&quot; in &lt;folder&gt;" in text
    assert '<a href="#xor">xor</a> <a href="#mnist">mnist</a>' in text
    assert "orange the test error" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "xor.png"]
