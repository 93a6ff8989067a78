//! What we tell a user about an input: code, severity, message, span, labels, help. Nothing prints here.
