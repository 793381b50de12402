//! The program: parse the command line, dispatch.
fn main() {}
