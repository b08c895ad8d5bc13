//! Recorded by sysstat 12.6 where the file says so; the climb of the incident's first report (10 % to 90 % in a minute
//! and a half) is made.

use super::*;
use crate::oom::parse_instant;
use crate::time::Timestamp;
use proptest::prelude::*;

fn options() -> Options {
    Options { file_host: Some("file".into()), ..Options::default() }
}

fn at(text: &str) -> Timestamp {
    parse_instant(text).unwrap()
}

#[test]
fn what_sysstat_recorded_reads_the_same_in_its_three_forms() {
    let all: Vec<Read> = [
        include_str!("../../testdata/curves/sar-r.txt"),
        include_str!("../../testdata/curves/sadf-d.txt"),
        include_str!("../../testdata/curves/sadf-j.json"),
    ]
    .map(|t| read(t, &options()).expect("a form"))
    .into();
    assert_eq!(
        all.iter().map(|r| r.form).collect::<Vec<_>>(),
        [CurveFormat::Sar, CurveFormat::SadfDatabase, CurveFormat::SadfJson]
    );
    for r in &all {
        assert_eq!(r.not_understood, 0, "{:?}", r.errors);
        assert_eq!((r.series.len(), r.series[0].host.as_str()), (1, "node-a"));
        assert_eq!(r.series[0].samples, all[0].series[0].samples);
    }
    let s = &all[0].series[0];
    assert_eq!(s.samples[0].at, at("2026-11-29T14:01:56Z"));
    assert_eq!((s.samples[0].used_bytes, s.samples[0].used_percent), (Some(621_980.0 * 1024.0), Some(2.52)));
    assert!(s.time_is_assumed && !all[1].series[0].time_is_assumed);
}

#[test]
fn sar_in_local_time_over_midnight_with_halves_of_the_day() {
    let text = "Linux 6.1.0 (n) \t11/12/2026 \t_x86_64_\t(2 CPU)\n\n11:59:50 PM kbmemfree kbmemused  %memused\n11:59:59 PM  1 10 1.00\n12:00:09 AM 1 20 2.00\nAverage: 1 15 1.5\n\n11:59:50 PM  CPU  %user\nx\n";
    let options = Options { zone: "+08:00".parse().ok(), near: parse_instant("2026-11-12").ok(), ..options() };
    let r = read(text, &options).expect("sar");
    assert_eq!(
        r.series[0].samples.iter().map(|s| s.at).collect::<Vec<_>>(),
        [at("2026-11-12T15:59:59Z"), at("2026-11-12T16:00:09Z")]
    );
    assert!(!r.series[0].time_is_assumed);
    let near = Options { near: parse_instant("2026-12-11").ok(), ..options };
    assert_eq!(read(text, &near).expect("sar").series[0].samples[0].at, at("2026-12-11T15:59:59Z"));
}

/// 10 % until 11:19:20, 90 % at 11:20:50, killed then; a reading each 5 s.
fn incident(total: f64) -> String {
    let begin = at("2026-11-29T11:00:00Z");
    let mut text = String::from("host,time,used_bytes,total_bytes\n");
    for n in 0..300 {
        let t = f64::from(n * 5);
        let percent = if t <= 1160.0 {
            10.0 + 0.3 * (t / 7.0).sin()
        } else if t <= 1250.0 {
            10.0 + 80.0 * (t - 1160.0) / 90.0
        } else {
            6.0
        };
        let when = begin.plus_nanos(i64::from(n) * 5_000_000_000);
        text += &format!("gpu-017,{when},{},{total}\n", percent / 100.0 * total);
    }
    text
}

#[test]
fn the_climb_before_a_kill_has_its_onset_and_rate() {
    let total = 2e12;
    let r = read(&incident(total), &options()).expect("csv");
    assert_eq!((r.form, r.not_understood), (CurveFormat::Csv, 0));
    let climb = onset(&r.series[0], at("2026-11-29T11:20:51Z")).expect("a climb");
    let off = climb.start.seconds_since(at("2026-11-29T11:19:20Z"));
    assert!((-1.0..=10.0).contains(&off), "{off}");
    assert_eq!(climb.end, at("2026-11-29T11:20:50Z"));
    assert!(climb.start_latest.seconds_since(climb.start) <= 5.0);
    let (percent, bytes) = (climb.rate_percent_per_second.unwrap(), climb.rate_bytes_per_second.unwrap());
    assert!((percent - 80.0 / 90.0).abs() < 0.05, "{percent}");
    assert!((bytes / (0.8 * total / 90.0) - 1.0).abs() < 0.05, "{bytes}");
    // No climb at a quiet time, nor where nothing was recorded, nor one that ended long before.
    for quiet in ["2026-11-29T11:10:00Z", "2026-11-29T13:00:00Z", "2026-11-29T11:24:00Z"] {
        assert_eq!(onset(&r.series[0], at(quiet)), None, "{quiet}");
    }
    assert_eq!(onset(&Series::default(), at("2026-11-29T11:10:00Z")), None);
}

#[test]
fn prometheus_names_hosts_by_label_and_measures_by_name_or_size() {
    let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
      {"metric":{"__name__":"node_memory_MemAvailable_bytes","instance":"gpu-017:9100"},"values":[[1795951200,"900"],[1795951230.5,"100"]]},
      {"metric":{"__name__":"node_memory_MemTotal_bytes","instance":"gpu-017:9100"},"values":[[1795951200,"1000"]]},
      {"metric":{"instance":"[2001:db8::1]:9100"},"values":[[1795951200,"0.1"],[1795951230,"0.9"]]},
      {"metric":{"__name__":"node_memory_MemFree_bytes","node":"x"},"values":[[1795951200,"5"]]},
      {"metric":{},"values":[[1795951200,"NaN"],[1,2],[]]}]}}"#;
    let r = read(text, &Options::default()).expect("prometheus");
    assert_eq!((r.form, r.not_understood), (CurveFormat::Prometheus, 2));
    assert_eq!(r.series.iter().map(|s| s.host.as_str()).collect::<Vec<_>>(), ["2001:db8::1", "gpu-017"]);
    let s = &r.series[1].samples;
    assert_eq!((s[1].used_bytes, s[1].used_percent), (Some(900.0), Some(90.0)));
    assert_eq!(s[1].at, at("1795951230.5"));
    assert!((onset(&r.series[0], s[1].at).and_then(|c| c.rate_percent_per_second).unwrap() - 80.0 / 30.0).abs() < 1e-9);
}

#[test]
fn faults_name_their_line_and_other_texts_are_none() {
    let r =
        read("time,host,used_percent\nx,h,1\n2026-11-29T11:00:00Z,h,nan\n2026-11-29 11:00:00,h,\"12%\"\n", &options())
            .expect("csv");
    assert_eq!(r.errors.iter().map(|e| e.line).collect::<Vec<_>>(), [2, 3]);
    assert!(r.errors[0].to_string().contains("line 2: required host,time"));
    assert!(r.series[0].time_is_assumed);
    for text in ["", "host,time,process\na,b,c", "Linux 6.1 (x) 1/1/26\n", "{\"data\":1}", "hello"] {
        assert!(read(text, &options()).is_none(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_jumble_is_read_without_panic(words in proptest::collection::vec(prop::sample::select(vec![
        "host,time,used_bytes\n", "Linux 6 (h) 11/29/26\n", "10:00:00 kbmemused %memused\n", "10:00:00 ", "9 9\n", "9e999", "PM ", "\n", ",",
        "# hostname;interval;timestamp;kbmemused\n", "h;1;2026-11-29 10:00:00 UTC;7\n", "1795951200", "-1", "2026-11-29T10:00:00Z", "é",
    ]), 0..40), around in any::<i64>()) {
        for series in read(&words.concat(), &options()).into_iter().flat_map(|r| r.series) {
            onset(&series, Timestamp(around));
            for s in &series.samples {
                onset(&series, s.at);
            }
        }
    }
}
