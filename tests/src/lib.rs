//! Harness of the file tests.
