//! The grammar, frame by frame: what is taken, what is refused, wherever the bytes are cut.

use super::*;

fn frames(bytes: &[u8]) -> Vec<Raw> {
    let mut out = Vec::new();
    Frames::default().push(bytes, |f| out.push(f));
    out
}

fn at(address: u8, axis: u8) -> Target {
    Target { address, axis }
}

fn reply(text: &str) -> Option<Reply> {
    match parse(text) {
        Some(Frame::Reply(r)) => Some(r),
        _ => None,
    }
}

/// Z09: the awkward forms that the public Rust driver's own tests list.
#[test]
fn z09_each_awkward_form_is_taken_or_refused_whole() {
    for (good, id, ok, busy, flag, data) in [
        ("@01 1 OK IDLE -- 0", None, true, false, NONE, "0"),
        ("@01 0 OK IDLE -- 0:8D", None, true, false, NONE, "0"),
        ("@01 0 OK IDLE -- 0:8d", None, true, false, NONE, "0"),
        ("@99 9 07 RJ BUSY WR BADDATA", Some(7), false, true, *b"WR", "BADDATA"),
        ("@01 0 OK IDLE -- 1000 -2000 0", None, true, false, NONE, "1000 -2000 0"),
        ("@01 0 00 OK IDLE FS NA", Some(0), true, false, *b"FS", "NA"),
    ] {
        let r = reply(good).unwrap_or_else(|| panic!("{good}"));
        assert_eq!((r.id, r.ok, r.busy, r.flag, r.data.as_str(), r.more), (id, ok, busy, flag, data, false), "{good}");
    }
    for bad in [
        "@",
        "@01",
        "@01 1",
        "@1 1 OK IDLE -- 0",
        "@001 1 OK IDLE -- 0",
        "@256 1 OK IDLE -- 0",
        "@00 1 OK IDLE -- 0",
        "@01 12 OK IDLE -- 0",
        "@01 OK IDLE -- 0",
        "@01 1 1 OK IDLE -- 0",
        "@01 1 100 OK IDLE -- 0",
        "@01 1 ok IDLE -- 0",
        "@01 1 OK idle -- 0",
        "@01 1 OKIDLE -- 0",
        "@01 1 OK IDLE --- 0",
        "@01 1 OK IDLE - 0",
        "@01 1 OK IDLE wr 0",
        "@01 1 OK IDLE W1 0",
        "@01 1 OK IDLE --",
        "@01  1 OK IDLE -- 0",
        " @01 1 OK IDLE -- 0",
        "@01 1 OK IDLE -- 0:8D",
        "@01 0 OK IDLE -- 0:8E",
        "@01 0 OK IDLE -- 0:8",
        "@01 0 OK IDLE -- 0:08D",
        "@01 0 OK IDLE -- 0:",
        "@01 0 OK IDLE -- 0:+8",
        "@01 1 OK IDLE -- a:b:00",
        "!01 2 IDLE ---",
        "!01 2 IDLE",
        "!01 2 OK IDLE --",
        "/01 1 OK IDLE -- 0",
        "01 1 OK IDLE -- 0",
        "",
    ] {
        assert_eq!(parse(bad), None, "{bad}");
    }
    assert_eq!(parse("!01 1 IDLE --"), Some(Frame::Alert { from: at(1, 1), busy: false, flag: NONE }));
    let info = |text: &str| match parse(text) {
        Some(Frame::Info { continues, data, .. }) => (continues, data),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(info("#01 0 cont part2"), (true, "part2".into()));
    assert_eq!(info("#01 0 Visit zaber for help"), (false, "Visit zaber for help".into()));
}

#[test]
fn parts_are_joined_by_device_axis_and_id_and_nothing_else_is() {
    let first = |text: &str| reply(text).unwrap();
    let mut j = Joiner::default();
    assert_eq!(j.begin(first("@01 0 OK IDLE -- part1\\")), None);
    // Another device's parts, another axis, another id.
    assert_eq!(j.go_on(at(2, 0), None, "no", false), None);
    assert_eq!(j.go_on(at(1, 1), None, "no", false), None);
    assert_eq!(j.go_on(at(1, 0), Some(1), "no", false), None);
    assert_eq!(j.go_on(at(1, 0), None, "part2", true), None);
    assert_eq!(j.go_on(at(1, 0), None, "part3", false).unwrap().data, "part1 part2 part3");
    assert_eq!(j.go_on(at(1, 0), None, "more", false), None, "a continuation without a beginning");
    j.begin(first("@01 0 OK IDLE -- part1\\"));
    for _ in 0..1000 {
        assert_eq!(j.go_on(at(1, 0), None, "and so on and on", true), None, "without end, but not without bound");
    }
}

#[test]
fn a_start_character_begins_anew_and_costs_only_what_stood_before_it() {
    let ok = |t: &str| Raw::Frame(t.into());
    assert_eq!(frames(b"\x00\t\r@01 1 OK IDLE --\r\n"), [ok("@01 1 OK IDLE --")]);
    assert_eq!(
        frames(b"@01 1 OK IDLE -- 12@02 1 OK IDLE -- 5\r\n"),
        [Raw::Damaged("@01 1 OK IDLE -- 12".into()), ok("@02 1 OK IDLE -- 5")]
    );
    assert_eq!(frames(b"\xff\xfe@01 1\r\n"), [Raw::Damaged("\\xff\\xfe".into()), ok("@01 1")]);
    assert_eq!(frames(b"@01 1 OK \xe2IDLE\r\n"), [Raw::Damaged("@01 1 OK \\xe2IDLE".into())]);
    assert_eq!(frames(b"noise\r\n"), [Raw::Damaged("noise".into())]);
    assert_eq!(frames(b"#01 0 help! #1\r\n"), [ok("#01 0 help! #1")], "words may have any character");
    assert!(matches!(frames(&[b"@".as_slice(), &[b'x'; 3000], b"\n"].concat())[..], [Raw::Damaged(_)]));
}

#[test]
fn frames_are_the_same_wherever_they_are_cut() {
    let session = b"\x00\r\n@01 1 07 OK IDLE -- 1000:4A\r\n!02 1 IDLE WR\r\n@02 1 08 OK BUSY WR part\\\r\n#02 1 08 cont end\r\n@01@01 1 RJ IDLE -- BADDATA\n";
    let whole = frames(session);
    assert_eq!(whole.len(), 6);
    for cut in 0..=session.len() {
        let mut out = Vec::new();
        let mut split = Frames::default();
        split.push(&session[..cut], |f| out.push(f));
        split.push(&session[cut..], |f| out.push(f));
        assert_eq!(out, whole, "cut at {cut}");
    }
}

#[test]
fn a_frame_that_ends_early_or_lacks_a_byte_is_never_another_number() {
    let whole = "@01 1 07 OK IDLE -- -123456";
    let sum = lrc(&whole.as_bytes()[1..]);
    let summed = format!("{whole}:{sum:02X}");
    assert_eq!(reply(&summed).unwrap().data, "-123456");
    for cut in 1..summed.len() {
        // Cut right before the checksum it is a good frame without one; the chain refuses that where it knows better.
        let short = &summed[..cut];
        assert!(reply(short).is_none_or(|r| !r.summed), "{short}");
        let without = format!("{}{}", &summed[..cut], &summed[cut + 1..]);
        assert!(reply(&without).is_none_or(|r| !r.summed), "{without}");
    }
}

#[test]
fn numbers_come_in_finite_and_whole_or_not_at_all() {
    for (good, v) in
        [("0", 0.0), ("-1000", -1000.0), ("153600.5", 153_600.5), ("999999999999999", 999_999_999_999_999.0)]
    {
        assert_eq!(value(good), Some(v), "{good}");
    }
    for bad in ["", "-", "1e5", "nan", "inf", "+1", "1.", ".5", "1 2", "--1", "0x10", "1,5", "NA", "9999999999999999"] {
        assert_eq!(value(bad), None, "{bad}");
    }
    assert_eq!(flags("00"), Some(vec![]));
    assert_eq!(flags("02 WR NC"), Some(vec![*b"WR", *b"NC"]));
    for bad in ["", "2 WR NC", "01", "02 WR", "01 WR NC", "01 wr", "01 WRX"] {
        assert_eq!(flags(bad), None, "{bad}");
    }
}

#[test]
fn commands_carry_address_axis_number_and_sum() {
    // Seen on the wire of the manufacturer's own library.
    assert_eq!(command(at(1, 1), 4, "move abs 1000"), b"/1 1 04 move abs 1000:EC\n");
    assert_eq!(lrc(b"1 tools echo"), 0xBF);
    assert_eq!(lrc(b"get maxspeed"), 0x49);
    assert_eq!(lrc(b"01 0 OK IDLE -- 0"), 0x8D);
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic_the_codec(bytes in proptest::collection::vec(0_u8..=255, 0..2000)) {
        Frames::default().push(&bytes, |raw| if let Raw::Frame(f) = raw { parse(&f); });
    }

    #[test]
    fn almost_frames_panic_nothing_either(text in "[@!#][0-9 ]{0,9}(OK|RJ)? ?(IDLE|BUSY)? ?[-A-Z]{0,3} ?[ -~]{0,20}(:[0-9A-F]{0,3})?") {
        if let Some(Frame::Reply(r)) = parse(&text) {
            value(&r.data);
            flags(&r.data);
        }
    }

    #[test]
    fn what_is_sent_with_a_sum_is_refused_after_any_change_of_one_byte(
        address in 1_u8..=99, axis in 0_u8..=9, id in 0_u8..=99, n in -999_999_i64..999_999, place in 0_usize..100, to in b' '..=b'~',
    ) {
        let body = format!("{address:02} {axis} {id:02} OK IDLE -- {n}");
        let frame = format!("@{body}:{:02X}", lrc(body.as_bytes()));
        assert!(reply(&frame).is_some_and(|r| r.summed));
        let mut bytes = frame.clone().into_bytes();
        let place = 1 + place % (bytes.len() - 1);
        let same = bytes[place].eq_ignore_ascii_case(&to);
        bytes[place] = to;
        if !same {
            assert!(reply(std::str::from_utf8(&bytes).unwrap()).is_none_or(|r| !r.summed));
        }
    }
}
