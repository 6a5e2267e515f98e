"""Kernels are compiled once, whatever constants are passed, and only entries run by themselves."""

import pytest

from starmill.schema import compilation


@compilation.kernel
def _power(base, exponent):
    result = 1
    for _ in range(exponent):
        result *= base
    return result


@compilation.kernel
def _sum_of_powers(base):
    return _power(base, 2) + _power(3, 3) + _power(base, base)


@compilation.checked_kernel
def _quotient(a, b):
    return a // b


def _compiled(function):
    """Returns an entry that is not kept on disk, so that it compiles here and now."""
    return compilation._compile(
        function, {"pipeline_class": compilation.linking.EntryCompiler}
    )


def test_an_entry_links_kernels_of_kernels():
    entry = _compiled(lambda base: _sum_of_powers(base) - _power(base, 1))
    assert entry(4) == 16 + 27 + 256 - 4


def test_constants_share_a_specialisation():
    _compiled(lambda base: _power(2, 5) + _power(base, 7))(3)
    assert len(_power.signatures) == 1


def test_a_process_says_once_that_it_compiles(caplog):
    compilation.linking._say_so.cache_clear()
    with caplog.at_level("INFO"):
        _compiled(lambda a: _power(a, 1))(2)
        _compiled(lambda a: _power(a, 2))(2)
    assert [record.message.split(";")[0] for record in caplog.records] == ["compiling"]


def test_python_cannot_call_a_kernel():
    with pytest.raises(TypeError):
        _power(2, 3)


def test_a_division_by_zero_raises_through_an_entry():
    entry = _compiled(lambda a, b: _quotient(a, b) + 1)
    assert entry(7, 2) == 4
    with pytest.raises(ZeroDivisionError):
        entry(7, 0)
