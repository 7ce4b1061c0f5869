"""Groups of processes: each row is in one range, and errors are raised in all processes."""

from decoupled_descent.app.files.process_group import ProcessGroup
from tests.app.files.threads import in_threads


def test_an_error_of_one_process_is_raised_in_all():
    def work(group):
        def compute():
            if group.rank == 1:
                raise OSError("the disk is gone")
            return group.rank

        assert group.all_gather(lambda: group.rank) == [0, 1, 2]
        return group.all_gather(compute)

    errors = in_threads(3, work)
    assert [(type(one), str(one)) for one in errors] == [(OSError, "the disk is gone")] * 3


def test_a_process_with_another_file_is_named():
    def work(group):
        group.check_same_files(group.all_gather(lambda: "x" if group.rank == 2 else "y"))

    errors = in_threads(3, work)
    assert all("rank 2 reads another file than rank 0" in str(one) for one in errors)
    assert in_threads(2, work) == [None, None]


def test_row_ranges_are_disjoint_and_even():
    for n in (1, 7, 8, 100):
        ranges = [ProcessGroup(rank, 4).row_range(n) for rank in range(4)]
        assert [k for rows in ranges for k in range(n)[rows]] == list(range(n))
        sizes = [len(range(n)[rows]) for rows in ranges]
        assert max(sizes) - min(sizes) <= 1
