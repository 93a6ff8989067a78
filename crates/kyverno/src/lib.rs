//! What Kyverno 1.19 decides.

pub mod autogen;
pub mod cel_rule;
pub mod classic;
pub mod classic_policy;
pub mod config;
pub mod constraints;
pub mod controller;
pub mod exception;
pub mod failure_action;
pub mod input;
pub mod lens;
pub mod lowered;
pub mod matching;
pub mod mutate;
pub mod mutating_controller;
pub mod mutating_policy;
pub mod observe;
pub mod offline;
mod params;
pub mod refusal;
pub mod response;
pub mod validating_policy;
pub mod webhook;
