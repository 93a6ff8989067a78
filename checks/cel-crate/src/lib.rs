//! Compares the CEL parser with that of the crate `cel`: see `tests/`.
