"""Makes the captures of this folder (scapy), and beside each what tshark reads of it (.tsv): make.py, in this folder.

Columns: packet, source, port, target, port, raw sequence number, payload length on the wire, captured payload in hex,
checksum (1 right, 0 wrong, 2 not verified)."""
import struct, subprocess
from functools import reduce
from scapy.all import *
from scapy.contrib.mpls import MPLS
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III

A, B = "192.0.2.11", "192.0.2.12"
A6, B6 = "2001:db8::11", "2001:db8::12"
O, P = "198.51.100.1", "198.51.100.2"
O6, P6 = "2001:db8:1::1", "2001:db8:1::2"
load = bytes.fromhex("0300000b06e00000000000")
mac = dict(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")

def tcp(n=0, data=load, **kw):
    return TCP(sport=40000 + n, dport=29500, seq=0x10203040 + n, ack=7, flags="PA", window=502, **kw) / Raw(data)

def v4(n=0, data=load, **kw):
    return IP(src=A, dst=B, id=100 + n, **kw) / tcp(n, data)

def v6(n=0, data=load, **kw):
    return IPv6(src=A6, dst=B6, **kw) / tcp(n, data)

def eth(p, **kw):
    return Ether(**mac, **kw) / p

def raw(p):
    return bytes(p)

def write(name, link, packets, snap=None):
    with open(name + ".pcap", "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144, link))
        for i, p in enumerate(packets):
            p, wire = p if isinstance(p, tuple) else (bytes(p), None)
            f.write(struct.pack("<IIII", 1800000000, i, len(p), wire or len(p)) + p)
    fields = "frame.number _ws.col.Source tcp.srcport _ws.col.Destination tcp.dstport tcp.seq_raw tcp.len tcp.payload tcp.checksum.status".split()
    out = subprocess.run(["tshark", "-n", "-r", name + ".pcap", "-o", "tcp.desegment_tcp_streams:FALSE", "-o", "tcp.check_checksum:TRUE", "-Y", "tcp && !icmp", "-T", "fields", "-E", "occurrence=l"]
        + [a for x in fields for a in ("-e", x)], capture_output=True, text=True, check=True).stdout
    open(name + ".tsv", "w").write(out)
    print(name, len(packets), out.count("\n"))

def cut(p, n):
    b = bytes(p)
    return b[:n], len(b)

pad = b"\0" * 20
arp = Ether(**mac) / ARP()
write("ethernet", 1, [
    eth(v4()), eth(v6(1)), raw(eth(v4(2, b""))) + pad, raw(eth(v6(3, b""))) + pad,
    eth(IP(src=A, dst=B, id=9, options=[IPOption_Router_Alert(), IPOption_NOP()]) / tcp(4)),
    eth(v4(5, len=0)), eth(v6(6, plen=0)), arp, eth(IP(src=A, dst=B) / UDP(sport=1, dport=2) / Raw(load)),
    eth(IP(src=A, dst=B) / ICMP() / Raw(load)), cut(eth(v4(7, b"x" * 500)), 96), cut(eth(v4(8, b"x" * 500)), 60), cut(eth(v6(9, b"x" * 500)), 80),
    eth(IP(src=A, dst=B, id=8) / TCP(sport=50000, dport=29500, seq=5, flags="S", options=[("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)])),
])
llc = b"\xaa\xaa\x03\0\0\0\x08\0" + raw(v4(1))
llc8 = b"\xaa\xaa\x03\0\0\xf8\x08\0" + raw(v4(2))
sap = b"\x06\x06\x03" + raw(v4(3))
h = bytes.fromhex("020000000002020000000001")
stp = b"\x42\x42\x03" + bytes(35)
write("llc", 1, [h + struct.pack(">H", len(x)) + x + b"\0" * 9 for x in (llc, llc8, sap, stp)])
write("vlan", 1, [
    eth(Dot1Q(vlan=100) / v4()), eth(Dot1AD(vlan=5) / Dot1Q(vlan=100) / v4(1)), h + b"\x91\0\0\5\x81\0\0\6\x08\0" + raw(v4(2)),
    eth(Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3) / v6(3)), raw(eth(Dot1Q(vlan=9) / v4(4, b""))) + pad,
])
write("mpls", 1, [
    eth(MPLS(label=17, s=1) / v4(), type=0x8847), eth(MPLS(label=16, s=0) / MPLS(label=17, s=1) / v6(1), type=0x8847),
    eth(MPLS(label=20, s=1) / Raw(b"\0\0\0\0" + raw(eth(v4(2)))), type=0x8847),
])
ses = lambda proto, p: h + b"\x88\x64\x11\0\0\1" + struct.pack(">HH", len(p) + 2, proto) + p
write("pppoe", 1, [ses(0x21, raw(v4())), ses(0x57, raw(v6(1))), ses(0xc021, b"\x09\1\0\x08abcd"), ses(0x21, raw(v4(2, b""))) + pad])
write("null", 0, [struct.pack(e + "I", f) + raw(p) for e, f, p in
    [("<", 2, v4()), (">", 2, v4(1)), ("<", 24, v6(2)), ("<", 28, v6(3)), ("<", 30, v6(4)), (">", 30, v6(5)), (">", 28, v6(6)), (">", 24, v6(7))]])
write("loop", 108, [struct.pack(">I", f) + raw(p) for f, p in [(2, v4()), (24, v6(1))]])
write("raw", 101, [v4(), v6(1)])
write("dlt12", 12, [v4(), v6(1)])
write("dlt14", 14, [v4(), v6(1)])
write("ipv4", 228, [v4()])
write("ipv6", 229, [v6()])
write("ppp", 9, [b"\xff\3\0\x21" + raw(v4()), b"\0\x57" + raw(v6(1)), b"\x21" + raw(v4(2)), b"\xff\3\xc0\x21\1\1\0\4"])
write("ppp-hdlc", 50, [b"\xff\3\0\x21" + raw(v4()), b"\x0f\0\x08\0" + raw(v4(1))])
write("ipoib", 242, [bytes(40) + b"\x08\0\0\0" + raw(v4())])
sll = lambda hw, alen, addr, proto, p: struct.pack(">HHH", 0, hw, alen) + addr.ljust(8, b"\0")[:8] + struct.pack(">H", proto) + raw(p)
sll2 = lambda hw, alen, addr, proto, p: struct.pack(">HHIHBB", proto, 0, 3, hw, 4, alen) + addr.ljust(8, b"\0")[:8] + raw(p)
for name, link, f in (("sll", 113, sll), ("sll2", 276, sll2)):
    write(name, link, [f(1, 6, b"\2\0\0\0\0\1", 0x800, v4()), f(772, 6, b"", 0x86dd, v6(1)), f(32, 20, b"\0\0\0\x48\xfe\x80\0\0", 0x800, v4(2)),
        f(768, 4, b"\1\2\3\4", 0x800, v4(3)), f(776, 4, b"\1\2\3\4", 0x86dd, v6(4)), f(65534, 0, b"", 0x800, v4(5)), f(778, 4, b"\1\2\3\4", 0x800, v4(6)),
        f(1, 6, b"\2\0\0\0\0\1", 0x8100, b"\0\x64\x08\0" + raw(v4(7))), f(1, 6, b"", 4, llc), f(1, 6, b"", 0x806, ARP())])
hop = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)])
dst = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 12)])
x6 = lambda *e, n=0: eth(reduce(lambda a, b: a / b, e, IPv6(src=A6, dst=B6)) / tcp(n))
ah = b"\6\4\0\0\0\0\0\1\0\0\0\1" + b"\xaa" * 12
mob = b"\6\0\0\0\0\0\0\0"
esp = eth(IPv6(src=A6, dst=B6, nh=50) / Raw(b"\0\0\0\1" * 8))
write("extension", 1, [
    x6(hop), x6(hop, dst, n=1), x6(IPv6ExtHdrRouting(addresses=["2001:db8::99"], segleft=0), n=2), x6(IPv6ExtHdrFragment(id=77, offset=0, m=0), n=3),
    eth(IPv6(src=A6, dst=B6, nh=51) / Raw(ah + raw(v6(4))[40:])), eth(IP(src=A, dst=B, proto=51) / Raw(ah + raw(v4(5))[20:])), esp,
    x6(hop, IPv6ExtHdrRouting(addresses=["2001:db8::99"], segleft=0), dst, n=7),
    x6(IPv6ExtHdrRouting(addresses=["2001:db8::99"], segleft=1), n=8),
    x6(IPv6ExtHdrSegmentRouting(addresses=["2001:db8::98", "2001:db8::97"], segleft=1, lastentry=1), n=9),
    eth(IPv6(src=A6, dst=B6, nh=135) / Raw(mob + raw(v6(10))[40:])),
])
body = bytes(range(256)) * 2
whole4, whole6 = v4(0, body), v6(1, body)
whole4[TCP].options = [("NOP", None)] * 4
f4 = fragment(whole4, fragsize=8)
f6 = fragment6(IPv6(src=A6, dst=B6) / IPv6ExtHdrFragment(id=0x12345) / tcp(1, body), 120)
frags = lambda i, size: fragment(v4(i, body), fragsize=size)
shuffled = frags(2, 200); shuffled = [shuffled[i] for i in (2, 0, 1)]
dup = frags(3, 200); dup = [dup[0], dup[0], dup[2], dup[1]]
fo = fragment(IP(src=O, dst=P, id=7) / GRE() / v4(4, body), fragsize=104)
inner = frags(5, 160)
write("fragments", 1, [eth(p) for p in f4 + f6 + shuffled + dup + fo] + [eth(IP(src=O, dst=P) / p) for p in inner]
    + [raw(eth(p)) + pad for p in frags(6, 400)])
ov = lambda port, x: IP(src=O, dst=P) / UDP(sport=50001, dport=port) / x
vx = lambda p, vni=42: VXLAN(flags=8, vni=vni) / eth(p)
write("vxlan", 1, [
    eth(ov(4789, vx(v4()))), eth(ov(8472, vx(v6(1)))), eth(ov(4789, vx(Dot1Q(vlan=3) / v4(2)))), eth(IPv6(src=O6, dst=P6) / UDP(sport=5, dport=4789) / vx(v4(3))),
    eth(ov(4789, Raw(raw(VXLAN(flags=0x88, vni=7, gpid=3) / eth(v4(4)))))), eth(ov(4789, VXLAN(flags=8, vni=1) / arp)), raw(eth(ov(4789, vx(v4(5, b""))))) + pad,
])
write("vxlan-gpe", 1, [eth(ov(4790, Raw(b"\x0c\0\0\1\0\0\x2a\0" + raw(v4())))), eth(ov(4790, Raw(b"\x0c\0\0\3\0\0\x2a\0" + raw(eth(v4(1))))))])
write("geneve", 1, [
    eth(ov(6081, GENEVE(vni=42) / eth(v4()))), eth(ov(6081, Raw(b"\x02\0\x65\x58\0\0\x2a\0" + b"\1\2\3\1abcd" + raw(eth(v4(1)))))),
    eth(ov(6081, Raw(b"\0\0\x08\0\0\0\x2b\0" + raw(v4(2))))),
])
g = lambda p, **kw: eth(IP(src=O, dst=P) / GRE(**kw) / p)
write("gre", 1, [
    g(v4()), g(v6(1)), g(v4(2), key_present=1, key=42), g(v4(3), key_present=1, key=42, seqnum_present=1, sequence_number=9), g(v4(4), chksum_present=1),
    g(eth(v4(5)), proto=0x6558), g(eth(v4(6)), proto=0x6558, key_present=1, key=(0x123456 << 8) | 1), g(MPLS(label=17, s=1) / v4(7), proto=0x8847),
    g(eth(v4(8)), proto=0x6558, key_present=1, key=42),
])
e3 = lambda tail: b"\x20\x64\0\x2a" + b"\0\0\0\1" + b"\0\0\0" + tail
write("erspan", 1, [
    g(Raw(raw(eth(v4()))), proto=0x88be), g(Raw(b"\x10\x64\x08\x2a\0\0\0\1" + raw(eth(v4(1)))), proto=0x88be, seqnum_present=1, sequence_number=1),
    g(Raw(e3(b"\0") + raw(eth(v4(2)))), proto=0x22eb, seqnum_present=1, sequence_number=1),
    g(Raw(e3(b"\1") + b"\1" * 8 + raw(eth(v4(3)))), proto=0x22eb, seqnum_present=1, sequence_number=1),
])
write("ip-in-ip", 1, [
    eth(IP(src=O, dst=P) / v4()), eth(IP(src=O, dst=P, proto=41) / v6(1)), eth(IPv6(src=O6, dst=P6, nh=4) / v4(2)), eth(IPv6(src=O6, dst=P6, nh=41) / v6(3)),
    eth(IP(src=O, dst=P) / IP(src=O, dst=P) / IP(src=O, dst=P) / v4(4)),
])
write("gtp", 1, [
    eth(ov(2152, GTP_U_Header(teid=42) / v4())), eth(ov(2152, GTP_U_Header(teid=42, S=1, seq=3) / v6(1))),
    eth(ov(2152, Raw(bytes.fromhex("34ff") + struct.pack(">H", 8 + len(raw(v4(2)))) + b"\0\0\0\x2a\0\0\0\x85\1\x10\1\0" + raw(v4(2))))),
])
write("nested", 1, [eth(ov(4789, vx(IP(src=A, dst=B) / GRE() / IP(src=O, dst=P) / v4(0)))), eth(Dot1Q(vlan=4) / MPLS(label=3, s=1) / ov(6081, GENEVE(vni=1) / eth(Dot1Q(vlan=5) / v6(1))), type=0x8100)])
