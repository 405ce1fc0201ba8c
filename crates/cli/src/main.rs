//! The `cedrat` command.

fn main() {}
