//! The program: serves a bench in real time.
fn main() {}
