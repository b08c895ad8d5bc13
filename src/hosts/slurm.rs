//! `scontrol show node`, with or without `-o`: `NodeName=gpu-017 … NodeAddr=192.0.2.17 NodeHostName=gpu-017 …`.

use super::read::{ListFormat, Read};
use crate::names::Names;

pub(super) fn read(text: &str, names: &mut Names) -> Read {
    let mut read = Read::new(ListFormat::Slurm);
    let mut node: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        for word in line.split_whitespace() {
            let Some((key, value)) = word.split_once('=') else { continue };
            match (key, node) {
                ("NodeName", _) => node = Some(value).filter(|n| crate::oom::is_host(n)),
                ("NodeHostName", Some(node)) => names.add_alias(value, node),
                ("NodeAddr", Some(node)) => match value.parse() {
                    Ok(ip) => read.pair(names, node, ip),
                    // By default the address is the node's name, for a resolver.
                    Err(_) if crate::oom::is_host(value) => names.add_alias(value, node),
                    Err(_) => read.bad(number, "NodeAddr=ADDRESS", line),
                },
                _ => {}
            }
        }
        if line.contains("NodeName=") && node.is_none() {
            read.bad(number, "NodeName=NAME", line);
        }
    }
    read
}
