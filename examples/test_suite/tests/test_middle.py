"""Six tests that the planted bug does not pass as a whole."""

from middle import median


def test_one_value_is_its_own_median() -> None:
    assert median([7]) == 7


def test_an_odd_number_of_values() -> None:
    assert median([1, 2, 9]) == 2


def test_an_even_number_of_values() -> None:
    assert median([1, 2, 4, 9]) == 3


def test_order_does_not_matter() -> None:
    assert median([9, 1, 2]) == 2


def test_two_values() -> None:
    assert median([5, 1]) == 3


def test_the_values_are_left_as_they_were() -> None:
    values = [3, 1, 2]
    assert median(values) == 2
    assert values == [3, 1, 2]
