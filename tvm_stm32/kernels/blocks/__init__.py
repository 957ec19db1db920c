"""Inner kernels described once, printed as GNU assembly or as C with the same bytes.

:mod:`.program` is the description, :mod:`.operations` what each operation is in both languages, :mod:`.registers` gives
variables registers, :mod:`.assembly` and :mod:`.ctext` print. The other modules describe kernels.
"""
