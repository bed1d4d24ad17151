//! Holds the integration tests.
