//! The JSON value that all engines read.
