"""Every form of a Kubernetes quantity, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.quantity import (
    LARGEST,
    QuantityError,
    format_bytes,
    format_milli,
    milli_value,
    parse_quantity,
    whole_value,
)

FORMS = {
    "0": 0,
    "2": 2,
    "+2": 2,
    "-2": -2,
    "0.5": Fraction(1, 2),
    ".5": Fraction(1, 2),
    "5.": 5,
    "100m": Fraction(1, 10),
    "1u": Fraction(1, 10**6),
    "1n": Fraction(1, 10**9),
    "2k": 2000,
    "3M": 3 * 10**6,
    "1G": 10**9,
    "1T": 10**12,
    "1P": 10**15,
    "1E": 10**18,
    "1Ki": 1024,
    "1.5Gi": 1610612736,
    "1Ti": 2**40,
    "1Pi": 2**50,
    "1Ei": 2**60,
    "1e3": 1000,
    "1E3": 1000,
    "1.5e3": 1500,
    "12e-1": Fraction(6, 5),
    "0.1": Fraction(1, 10),
}

NO_QUANTITIES = [
    "",
    " 1",
    "1 ",
    "1K",
    "1ki",
    "1mi",
    "one",
    "1.2.3",
    "1e",
    "e3",
    "--1",
    "0x10",
    "1,5",
    "1e3Gi",
    "NaN",
    "inf",
    "1" * 65,
    "٣",
]


@pytest.mark.parametrize(("text", "number"), FORMS.items())
def test_every_form_is_read_exactly(text: str, number: Fraction | int) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize("text", NO_QUANTITIES)
def test_anything_else_is_refused_with_the_text_in_the_message(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity") as caught:
        parse_quantity(text)
    assert text[:60] in str(caught.value)


def test_numbers_are_read_as_they_are_written() -> None:
    assert parse_quantity(2) == 2
    assert parse_quantity(0.1) == Fraction(1, 10)
    assert parse_quantity(1e22) == min(10**22, LARGEST)


def test_true_is_no_quantity_even_after_one_was_read() -> None:
    assert parse_quantity(1) == 1
    with pytest.raises(QuantityError):
        parse_quantity(True)


def test_values_are_rounded_away_from_zero() -> None:
    assert whole_value("0.1") == 1
    assert whole_value("-0.1") == -1
    assert milli_value("1u") == 1
    assert milli_value("1.0001") == 1001
    assert whole_value("1100m") == 2


def test_magnitudes_are_capped() -> None:
    assert whole_value("1e60") == LARGEST
    assert whole_value("-1e60") == -LARGEST
    assert milli_value("9Ei") == LARGEST
    assert whole_value("1e-60") == 1


@pytest.mark.parametrize(("milli", "text"), [(2000, "2"), (1500, "1500m"), (0, "0"), (-500, "-500m")])
def test_cpu_is_shown_as_people_write_it(milli: int, text: str) -> None:
    assert format_milli(milli) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (1000, "1000"),
        (1024, "1Ki"),
        (4 * 2**30, "4Gi"),
        (1_500_000_000, "1.4Gi"),
        (2**60, "1Ei"),
        (2**70, "1024Ei"),
    ],
)
def test_bytes_are_shown_as_people_write_them(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(min_value=-(2**53), max_value=2**53))
def test_a_cpu_amount_survives_being_shown(milli: int) -> None:
    assert milli_value(format_milli(milli)) == milli


@given(
    st.integers(min_value=0, max_value=10**12),
    st.integers(min_value=0, max_value=999_999),
    st.sampled_from(["", "m", "k", "Ki", "Mi", "Gi", "e2"]),
)
def test_reading_agrees_with_arithmetic(whole: int, decimals: int, suffix: str) -> None:
    factors: dict[str, Fraction | int] = {
        "": 1,
        "m": Fraction(1, 1000),
        "k": 1000,
        "Ki": 1024,
        "Mi": 1024**2,
        "Gi": 1024**3,
        "e2": 100,
    }
    text = f"{whole}.{decimals:06}{suffix}"
    assert parse_quantity(text) == min((whole + Fraction(decimals, 10**6)) * factors[suffix], LARGEST)


@given(st.text(max_size=80))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        number = parse_quantity(text)
    except QuantityError:
        return
    assert abs(number) <= LARGEST
