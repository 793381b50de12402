//! What EAA's workflows call: regions, attributes, arrays, parameters.

mod desk;
mod support;

use desk::{Desk, homed, text};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_whose_caller_took_a_job_is_still_stored() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 30, "y": 20 }, "unit": "mm" })).await;
    let region = json!({ "x_center": 35000, "y_center": 25000, "size_x": 50, "size_y": 40, "wait_s": 0 });
    let begun = desk.ok("acquire_image", region).await;
    assert_eq!(begun["status"], "running");
    let done = desk.ok("get_job", json!({ "job_id": begun["job_id"], "wait_s": 60 })).await;
    assert!(std::path::Path::new(done["img_path"].as_str().unwrap()).is_file());
    assert_eq!(done["moved"], "yes");
    // 50 um and 40 um in pixels of 0.65 um.
    assert_eq!(done["shape"], json!([62, 77]));
    let info = desk.ok("get_current_image_info", json!({})).await;
    assert_eq!((&info["psize"], &info["image_id"]), (&json!(0.65), &done["image_id"]));
    let history = desk.ok("get_attribute_payload", json!({ "name": "image_acquisition_call_history" })).await;
    assert_eq!(history["result"][0]["x_center"], 35000);
}

#[tokio::test(flavor = "multi_thread")]
async fn e23_attributes_come_as_result_and_arrays_decode() {
    let desk = Desk::new(homed()).await;
    assert_eq!(desk.ok("get_attribute_payload", json!({ "name": "image_k" })).await, json!({ "result": null }));
    desk.ok("acquire_image", json!({})).await;
    let payload = desk.call("get_attribute_payload", json!({ "name": "image_k" })).await;
    assert!(text(&payload).len() < 500);
    let data = payload.structured_content.unwrap();
    assert_eq!(data.as_object().unwrap().len(), 1);
    let array = &data["result"]["encoded_data"];
    assert_eq!((&array["type"], &array["dtype"]), (&json!("array"), &json!("uint16")));
    assert!(data["result"].get("encoding").is_none());
    assert_eq!(desk.ok("get_attribute_payload", json!({ "name": "psize_k" })).await, json!({ "result": 0.65 }));
    let (what, _) = desk.refused("get_attribute_payload", json!({ "name": "image_x" })).await;
    assert!(what.starts_with("[not_found]") && what.contains("image_km1"), "{what}");
    let exported = desk.ok("export_array", json!({ "buffer": "image_k", "name": "first" })).await;
    let file = std::fs::read(exported["path"].as_str().unwrap()).unwrap();
    assert!(file.starts_with(b"\x93NUMPY"));
    let (what, _) = desk.refused("export_array", json!({ "buffer": "image_k", "name": "first" })).await;
    assert!(what.contains("never overwritten"), "{what}");
}

/// The newest image as rows of counts.
async fn image_k(desk: &Desk) -> Vec<Vec<f64>> {
    use base64::Engine;
    let data = desk.ok("get_attribute_payload", json!({ "name": "image_k" })).await;
    let array = &data["result"]["encoded_data"];
    assert_eq!(array["dtype"], "uint16");
    let bytes = base64::engine::general_purpose::STANDARD.decode(array["data"].as_str().unwrap()).unwrap();
    let columns = usize::try_from(array["shape"][1].as_u64().unwrap()).unwrap();
    let counts: Vec<f64> = bytes.chunks_exact(2).map(|b| f64::from(u16::from_le_bytes([b[0], b[1]]))).collect();
    counts.chunks(columns).map(<[f64]>::to_vec).collect()
}

/// The mean difference of two images where `b` is shifted by so many columns and rows.
fn unlike(a: &[Vec<f64>], b: &[Vec<f64>], columns: i32, rows: i32) -> f64 {
    let inside = |i: usize, by: i32, n: usize| usize::try_from(i32::try_from(i).unwrap() + by).ok().filter(|j| *j < n);
    let (mut sum, mut count) = (0.0, 0.0);
    for (r, row) in b.iter().enumerate() {
        for (c, value) in row.iter().enumerate() {
            if let (Some(r), Some(c)) = (inside(r, rows, a.len()), inside(c, columns, row.len())) {
                sum += (a[r][c] - value).abs();
                count += 1.0;
            }
        }
    }
    sum / count
}

#[tokio::test(flavor = "multi_thread")]
async fn e11_columns_run_along_plus_x_and_rows_along_plus_y() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 37, "y": 24 }, "unit": "mm" })).await;
    desk.ok("move_to", json!({ "targets": { "z": 2000 }, "unit": "um" })).await;
    // 13 um are 20 pixels.
    let region = |x: u32, y: u32| json!({ "x_center": x, "y_center": y, "size_x": 200, "size_y": 200 });
    let mut images = Vec::new();
    for (x, y) in [(37000, 24000), (37013, 24000), (37000, 24013)] {
        desk.ok("acquire_image", region(x, y)).await;
        images.push(image_k(&desk).await);
    }
    // What lies at column c after the stage went by +x lay at column c + 20 before.
    for (moved, right, wrong) in [(1, (20, 0), (-20, 0)), (2, (0, 20), (0, -20))] {
        let same = unlike(&images[0], &images[moved], right.0, right.1);
        let other = unlike(&images[0], &images[moved], wrong.0, wrong.1);
        assert!(same * 2.0 < other, "image {moved}: {same} against {other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_set_as_motion_and_refused_as_motion() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 30, "y": 20 }, "unit": "mm" })).await;
    let set = desk.ok("set_parameters", json!({ "parameters": [3500.0] })).await;
    assert_eq!(set["moved"], "yes");
    let got = desk.ok("get_parameters", json!({})).await;
    assert!((got["result"][0].as_f64().unwrap() - 3500.0).abs() <= 5.0, "{got}");
    let (what, _) = desk.refused("set_parameters", json!({ "parameters": [9000] })).await;
    assert!(what.starts_with("[out_of_travel]"), "{what}");
    let (what, _) = desk.refused("set_parameters", json!({ "parameters": [null] })).await;
    assert!(what.starts_with("[invalid_argument]") && what.contains("NaN"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_larger_than_the_field_is_refused_before_anything_moves() {
    let desk = Desk::new(homed()).await;
    let region = json!({ "x_center": 35000, "y_center": 25000, "size_x": 90000, "size_y": 40 });
    let (what, data) = desk.refused("acquire_image", region).await;
    assert!(what.contains("size_x 90000 um is larger than the field of cam"), "{what}");
    assert_eq!(data["moved"], "no");
    assert!((desk.lab.lock().truly("x") - 74.0).abs() < 0.05);
}
