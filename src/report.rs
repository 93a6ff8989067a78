//! One renderer per format over the same run.

pub mod human;
pub mod json;
pub mod junit;
