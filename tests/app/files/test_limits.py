"""Limits of what a file may unpack to."""

import pytest

from decoupled_descent.app.files import limits


def test_small_files_may_unpack_to_a_fixed_size_and_large_ones_to_a_multiple():
    assert limits.most_bytes(0) == limits.SMALL
    assert limits.most_bytes(limits.SMALL // 10) == 10 * limits.SMALL
    assert limits.most_bytes(limits.MOST_BYTES) == limits.MOST_BYTES
    assert limits.most_bytes(limits.MOST_BYTES, in_memory=False) == limits.DENSE * limits.MOST_BYTES


def test_the_limit_itself_is_accepted():
    limits.check_size(7, 7)
    with pytest.raises(ValueError, match="unpacks to more than 3 MB, the limit"):
        limits.check_size(3_000_001, 3_000_000)
    limits.check_width(limits.MOST_COLUMNS)
    with pytest.raises(ValueError, match=r"it has 10(,000)+ columns"):
        limits.check_width(10**400)
