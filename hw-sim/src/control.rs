//! The control socket's language: one JSON request a line, one JSON reply a line.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Bench, BenchError, Fault, PortKind};

impl Bench {
    /// Answers one request of the control socket: the observation and control points of this type as JSON.
    ///
    /// `cmd` is one of `devices`, `positions`, `speeds`, `pulses`, `state`, `light`, `now`, `settings`, `stored`, `output`,
    /// `received`, `written`, `fault`. Whatever is wrong with a request is answered with `{"error": …}`.
    pub fn control(&mut self, line: &str) -> String {
        let reply = match serde_json::from_str::<Value>(line) {
            Ok(request) => self.answer(request),
            Err(e) => Err(format!("not JSON: {e}")),
        };
        reply.unwrap_or_else(|e| json!({ "error": e })).to_string()
    }

    fn answer(&mut self, mut request: Value) -> Result<Value, String> {
        let fields = request.as_object_mut().ok_or("a request is a JSON object")?;
        let take = |fields: &mut serde_json::Map<String, Value>, key: &str| match fields.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{key} is a string")),
        };
        let cmd = take(fields, "cmd")?.ok_or("cmd is missing")?;
        let device = take(fields, "device")?;
        match cmd.as_str() {
            "devices" => Ok(self.devices_json()),
            "positions" => Ok(self.per_axis(|b, d, a| json!(b.carriage_mm(d, a)))),
            "speeds" => Ok(self.per_axis(|b, d, a| json!(b.speed_mm_per_s(d, a)))),
            "pulses" => Ok(self.per_axis(|b, d, a| json!(b.pulses(d, a)))),
            "state" => {
                let states = self.devices().into_iter().map(|d| {
                    let state = json!(self.state(&d.id));
                    (d.id, state)
                });
                Ok(Value::Object(states.collect()))
            }
            "light" => Ok(json!({ "light": self.light() })),
            "now" => Ok(json!({ "now_ms": self.now().as_secs_f64() * 1000.0 })),
            "settings" => {
                let device = self.known(device)?;
                let pairs = self.settings(&device).into_iter().map(|(n, v)| (format!("${n}"), json!(v)));
                Ok(Value::Object(pairs.collect()))
            }
            "stored" => {
                let device = self.known(device)?;
                let address = match fields.remove("address") {
                    None => 1,
                    Some(v) => {
                        v.as_u64().and_then(|n| u8::try_from(n).ok()).ok_or("address is a whole number, 1 to 99")?
                    }
                };
                let pairs = self.stored(&device, address).into_iter().map(|(n, v)| (n, json!(v)));
                Ok(Value::Object(pairs.collect()))
            }
            "received" | "written" => {
                let device = self.known(device)?;
                let since = match fields.remove("since_ms") {
                    None => 0.0,
                    Some(v) => v.as_f64().filter(|v| *v >= 0.0).ok_or("since_ms is a number, 0 or above")?,
                };
                let log = if cmd == "received" { self.received(&device) } else { self.written(&device) };
                Ok(log_json(log, Duration::from_secs_f64((since / 1000.0).min(1e9))))
            }
            "output" => {
                let device = self.known(device)?;
                let of = take(fields, "output")?.ok_or("output is missing")?;
                let mut whole =
                    |key: &str| fields.remove(key).and_then(|v| v.as_u64()).ok_or(format!("{key} is missing"));
                let (address, channel) = (whole("address")?, whole("channel")?);
                let value = self.output(&device, address.try_into().unwrap_or(0), &of, channel.try_into().unwrap_or(0));
                if value.is_nan() {
                    Err(format!("there is no output {of} {channel}"))
                } else {
                    Ok(json!({ "value": value }))
                }
            }
            "fault" => {
                let device = self.known(device)?;
                let fault: Fault = serde_json::from_value(request).map_err(|e| e.to_string())?;
                self.fault(&device, fault).map_err(|e: BenchError| e.to_string())?;
                Ok(json!({ "ok": true }))
            }
            other => Err(format!("unknown cmd {other:?}")),
        }
    }

    fn known(&self, device: Option<String>) -> Result<String, String> {
        let device = device.ok_or("device is missing")?;
        if self.devices().iter().any(|d| d.id == device) {
            Ok(device)
        } else {
            Err(BenchError::NoDevice(device).to_string())
        }
    }

    fn devices_json(&self) -> Value {
        let list: Vec<Value> = self
            .devices()
            .into_iter()
            .map(|d| {
                let baud = match d.port {
                    PortKind::Serial { baud } => json!(baud),
                    PortKind::Tcp => Value::Null,
                };
                let plugged = self.plugged(&d.id);
                json!({ "device": d.id, "protocol": d.protocol, "baud": baud, "plugged": plugged })
            })
            .collect();
        json!({ "devices": list })
    }

    fn per_axis(&self, value: impl Fn(&Bench, &str, &str) -> Value) -> Value {
        let devices = self.devices().into_iter().filter_map(|d| {
            let axes = self.axes(&d.id);
            let values = axes.iter().map(|a| (a.clone(), value(self, &d.id, a)));
            (!axes.is_empty()).then(|| (d.id.clone(), Value::Object(values.collect())))
        });
        Value::Object(devices.collect())
    }
}

fn log_json(log: &[(Duration, u8)], since: Duration) -> Value {
    let from = log.partition_point(|(t, _)| *t < since);
    let bytes: Vec<u8> = log[from..].iter().map(|(_, b)| *b).collect();
    let times: Vec<f64> = log[from..].iter().map(|(t, _)| t.as_secs_f64() * 1000.0).collect();
    let text: String = bytes.iter().map(|b| char::from(*b)).collect();
    json!({ "text": text, "bytes": bytes, "t_ms": times })
}
