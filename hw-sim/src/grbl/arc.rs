//! G2 and G3 as the short lines that the firmware makes of them.

use super::gcode::{Block, Motion, Position, plane_axes};

/// The end points of the lines that trace an arc, the last being the target.
///
/// # Errors
/// `error:33` for an arc that cannot be, `error:34` for a radius that does not fit.
pub(super) fn points(from: &Position, to: &Position, block: &Block, tolerance: f64) -> Result<Vec<Position>, u8> {
    let clockwise = block.motion == Some(Motion::Clockwise);
    let (i, j) = plane_axes(block.modal.plane);
    let (dx, dy) = (to[i] - from[i], to[j] - from[j]);
    let (ox, oy) = match block.radius {
        Some(r) => {
            let d2 = dx * dx + dy * dy;
            if d2 == 0.0 {
                return Err(33);
            }
            let h2 = 4.0 * r * r - d2;
            if h2 < 0.0 {
                return Err(34);
            }
            let side = if clockwise == (r > 0.0) { -1.0 } else { 1.0 };
            let h = side * h2.sqrt() / d2.sqrt();
            ((dx - dy * h) / 2.0, (dy + dx * h) / 2.0)
        }
        None => (block.offsets[i].unwrap_or(0.0), block.offsets[j].unwrap_or(0.0)),
    };
    let centre = (from[i] + ox, from[j] + oy);
    let radius = ox.hypot(oy);
    let end_radius = (to[i] - centre.0).hypot(to[j] - centre.1);
    let off = (radius - end_radius).abs();
    if radius == 0.0 || (off > 0.005 && (off > 0.5 || off > 0.001 * radius)) {
        return Err(33);
    }
    let start = (-oy).atan2(-ox);
    let mut angle = (to[j] - centre.1).atan2(to[i] - centre.0) - start;
    let turn = std::f64::consts::TAU;
    if clockwise && angle >= -1e-9 {
        angle -= turn;
    } else if !clockwise && angle <= 1e-9 {
        angle += turn;
    }
    let chord = (tolerance * (2.0 * radius - tolerance)).max(1e-6).sqrt();
    let count = ((0.5 * angle.abs() * radius / chord).floor() as usize).clamp(1, 2000);
    Ok((1..=count)
        .map(|k| {
            let f = k as f64 / count as f64;
            let mut p = *from;
            for (axis, v) in p.iter_mut().enumerate() {
                *v += (to[axis] - from[axis]) * f;
            }
            if k < count {
                let a = start + angle * f;
                p[i] = centre.0 + radius * a.cos();
                p[j] = centre.1 + radius * a.sin();
            } else {
                p = *to;
            }
            p
        })
        .collect())
}
