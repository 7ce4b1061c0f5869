"""Parts of a text file: the rows of all processes are those of the file, each once."""

import csv
import io

import numpy as np
import pytest

from decoupled_descent.app.tables import shares
from decoupled_descent.app.tables.shares import Share, cut, lines_from, survey
from tests.app.tables.company import in_company


def opener(content):
    """Opens some bytes of a text."""
    return lambda start, stop: io.BytesIO(content[start:stop])


def parts_of(content, size, separator=","):
    """Where the rows of each process are, or None."""

    def found(share):
        return cut(
            opener(content), lines_from(opener(content), len(content), share), separator, share
        )

    return in_company(size, found)


def rows_of(content):
    text = io.StringIO(content.decode(), newline="")
    return [row for row in csv.reader(text, skipinitialspace=True) if row]


def assert_divided(content, size):
    """Check that processes have rows of their own that make the file. Whether it can be divided."""
    found = parts_of(content, size)
    if found[0] is None:
        assert set(found) == {None}
        return False
    rows = [rows_of(content[one.start : one.stop]) for one in found]
    assert [row for part in rows for row in part] == rows_of(content)
    assert [one.before for one in found] == [0, *np.cumsum([len(part) for part in rows])[:-1]]
    assert all(rows)
    return True


PLAIN = b"a,b\n" + b"".join(b"%d,%d\n" % (k, 10**k) for k in range(12))


@pytest.mark.parametrize("content", [
    PLAIN, PLAIN[:-1], PLAIN.replace(b"\n", b"\r\n"), PLAIN.replace(b"\n", b"\n\n\n"),
    b'a,b\n' + b'"x, ""y""\nand z",  "2"\n' * 9, b'a,b\n' + b'1,""\n2,"\n\n\n\n\n"\n' * 5,
])  # fmt: skip
@pytest.mark.parametrize("size", [2, 3])
def test_the_parts_are_the_file(content, size, monkeypatch):
    for looked in (1, 2, 5, 2**20):
        monkeypatch.setattr(shares, "LOOKED", looked)
        assert assert_divided(content, size)


def test_random_texts_are_divided_rightly_or_not_at_all(monkeypatch):
    """Against the reader of the standard library, which goes through the file from its start."""
    monkeypatch.setattr(shares, "LOOKED", 7)
    rng, divided = np.random.default_rng(0), 0
    for _ in range(400):
        signs = rng.choice(list('ab1," \n\r'), size=rng.integers(5, 120))
        divided += assert_divided(("a,b\n" + "".join(signs)).encode(), 2)
    fields = ['"two\nlines"', "plain", '"say ""x"", no"', '""', " 3", '  "4"', '"\r\n"']
    for _ in range(200):
        rows = [",".join(rng.choice(fields, 2)) for _ in range(rng.integers(4, 30))]
        divided += assert_divided(("a,b\n" + "\n".join(rows)).encode(), 3)
    assert divided > 200


@pytest.mark.parametrize("field", ['3" nail', 'a "b" c', '"a" "b"', '"a"b"c"'])
def test_marks_inside_fields_do_not_say_where_rows_begin(field):
    content = b"a,b\n" + b"1,2\n" * 9 + f"1,{field}\n".encode() + b"1,2\n" * 9
    assert parts_of(content, 2) == [None, None]
    assert not survey([content], False, ",").regular


def test_too_few_rows_are_not_divided():
    assert parts_of(b"a,b\n1,2\n3,4\n", 4) == [None] * 4
    assert parts_of(b"a,b\n" + b"1,2" * 50, 2) == [None] * 2


def test_an_error_of_one_is_raised_in_all():
    def work(share):
        def mine():
            if share.rank == 1:
                raise OSError("the disk is gone")
            return share.rank

        assert share.together(lambda: share.rank) == [0, 1, 2]
        return share.together(mine)

    found = in_company(3, work)
    assert [(type(one), str(one)) for one in found] == [(OSError, "the disk is gone")] * 3


def test_another_file_is_named():
    found = in_company(3, lambda share: share.same(5, b"x" if share.rank == 2 else b"y"))
    assert all("rank 2 reads another file than rank 0" in str(one) for one in found)
    assert in_company(2, lambda share: share.same(5, b"x")) == [None, None]


def test_shares_are_all_rows_once():
    for n in (1, 7, 8, 100):
        spans = [Share(rank, 4).span(n) for rank in range(4)]
        assert [k for span in spans for k in range(n)[span]] == list(range(n))
        sizes = [len(range(n)[span]) for span in spans]
        assert max(sizes) - min(sizes) <= 1
