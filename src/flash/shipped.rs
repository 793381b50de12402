//! The profiles that ship, from `profiles/`.

/// Each with its file's name and its text.
pub const SHIPPED: &[(&str, &str)] = &[
    ("asi-xy-fine.toml", include_str!("../../profiles/asi-xy-fine.toml")),
    ("asi-xy-standard.toml", include_str!("../../profiles/asi-xy-standard.toml")),
    ("bobscnc-e3.toml", include_str!("../../profiles/bobscnc-e3.toml")),
    ("cnc3018-xy.toml", include_str!("../../profiles/cnc3018-xy.toml")),
    ("openbuilds-ox.toml", include_str!("../../profiles/openbuilds-ox.toml")),
    ("pocketnc-fr4.toml", include_str!("../../profiles/pocketnc-fr4.toml")),
    ("shapeoko-1.toml", include_str!("../../profiles/shapeoko-1.toml")),
    ("shapeoko-2.toml", include_str!("../../profiles/shapeoko-2.toml")),
    ("shapeoko-3.toml", include_str!("../../profiles/shapeoko-3.toml")),
    ("sherline-5400.toml", include_str!("../../profiles/sherline-5400.toml")),
    ("x-carve-1000.toml", include_str!("../../profiles/x-carve-1000.toml")),
    ("x-carve-500.toml", include_str!("../../profiles/x-carve-500.toml")),
    ("zaber-hosted.toml", include_str!("../../profiles/zaber-hosted.toml")),
    ("zaber-x-lsm050a.toml", include_str!("../../profiles/zaber-x-lsm050a.toml")),
    ("zen-toolworks-7x7.toml", include_str!("../../profiles/zen-toolworks-7x7.toml")),
];
