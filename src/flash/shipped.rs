//! The profiles that ship, from `profiles/`.

/// Each with its file's name and its text.
pub const SHIPPED: &[(&str, &str)] = &[];
