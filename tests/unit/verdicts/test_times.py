import pytest

from knp_py.verdicts.times import (
    DAY,
    SECOND,
    klog_time,
    parse_duration,
    parse_timestamp,
    timestamp,
)

NOVEMBER = 1_795_984_680 * SECOND  # 2026-11-29T20:38:00Z


def test_timestamp_cuts_to_microseconds() -> None:
    assert timestamp(NOVEMBER + 123_456_999) == "2026-11-29T20:38:00.123456Z"


@pytest.mark.parametrize("ns", [10**30, -(10**30), -30_610_224_000 * SECOND - 1])
def test_a_year_of_more_or_fewer_digits_has_no_text(ns: int) -> None:
    assert timestamp(ns) is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-11-29T20:38:00Z", NOVEMBER),
        ("2026-11-29T20:38:00.123456789Z", NOVEMBER + 123_456_789),
        ("2026-11-29t20:38:00.5z", NOVEMBER + SECOND // 2),
        ("2026-11-29T22:38:00+02:00", NOVEMBER),
        ("2026-11-29T20:38:00", None),
        ("2026-13-29T20:38:00Z", None),
        ("2026-11-29T25:38:00Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_parse_timestamp(text: str, ns: int | None) -> None:
    assert parse_timestamp(text) == ns


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("2d", 172_800), ("1.5m", 90), ("5ms", 0.005)],
)
def test_parse_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == int(seconds * SECOND)


@pytest.mark.parametrize("text", ["", "5", "h", "1 h", "-1h", "1y", "1h and more"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("month", "day", "expected"),
    [
        (11, 29, "2026-11-29T09:53:52.257809Z"),
        (11, 30, "2026-11-30T09:53:52.257809Z"),  # a clock or a zone ahead
        (12, 31, "2025-12-31T09:53:52.257809Z"),
        (1, 1, "2026-01-01T09:53:52.257809Z"),
        (2, 29, "2024-02-29T09:53:52.257809Z"),
    ],
)
def test_a_klog_time_is_in_the_latest_year_that_is_not_ahead(
    month: int, day: int, expected: str
) -> None:
    ns = klog_time(month, day, (9, 53, 52), 257_809, NOVEMBER)
    assert ns is not None
    assert timestamp(ns) == expected


def test_a_klog_time_of_no_day() -> None:
    assert klog_time(13, 40, (9, 53, 52), 0, NOVEMBER) is None


def test_new_year_is_read_as_the_old_one_until_it_is_near() -> None:
    new_year = 1_798_761_600 * SECOND  # 2027-01-01T00:00:00Z
    before = klog_time(1, 1, (0, 0, 0), 0, new_year - 2 * DAY)
    after = klog_time(1, 1, (0, 0, 0), 0, new_year - DAY // 2)
    assert (before, after) == (new_year - 365 * DAY, new_year)
