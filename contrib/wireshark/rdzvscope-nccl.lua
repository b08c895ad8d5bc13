-- Wireshark dissector for NCCL's bootstrap (NCCL 2.4 and later). Wireshark 3.4 or later.
--
-- Since 2.16.2 a connection begins with a magic of 8 bytes, which is its communicator's, and a type. Frames follow: a length of 4 bytes, and so
-- many. Connections of the proxy service, NET and RAS are named; what they carry is left as bytes. Ports are the kernel's, so that streams
-- are told by their first bytes (a type in its place, and a check-in or a frame after it), or by Decode As: -d tcp.port==PORT,nccl.

local nccl = Proto("nccl", "NCCL bootstrap")

local KINDS = { [1] = "bootstrap", [2] = "proxy", [3] = "NET/Socket", [4] = "NET/IB", [5] = "RAS" }
local SOCKET_MAGIC = "6c9d4bf9f2b94a56"
-- Sizes of a check-in at the root, and the releases that send it.
local CHECK_INS = { [136] = "2.4-2.7", [64] = "2.8-2.22", [172] = "2.23-2.28", [176] = "2.29 and later" }
local LARGEST = 16 * 1024 * 1024

local f = {
    query = ProtoField.string("nccl.query", "Message"),
    magic = ProtoField.bytes("nccl.magic", "Magic"),
    kind = ProtoField.uint32("nccl.type", "Type", base.DEC, KINDS),
    frame_length = ProtoField.uint32("nccl.frame_length", "Length of the frame"),
    offset = ProtoField.uint64("nccl.offset", "Stream offset"),
    length = ProtoField.uint64("nccl.length", "Length of the message"),
    rank = ProtoField.int32("nccl.rank", "Rank"),
    ranks = ProtoField.int32("nccl.nranks", "Ranks"),
    versions = ProtoField.string("nccl.versions", "NCCL"),
    data = ProtoField.bytes("nccl.data", "Data"),
}
nccl.fields = { f.query, f.magic, f.kind, f.frame_length, f.offset, f.length, f.rank, f.ranks, f.versions, f.data }
local e_size = ProtoExpert.new("nccl.size", "A frame that no rank sends", expert.group.MALFORMED, expert.severity.ERROR)
nccl.experts = { e_size }

local stream_field = Field.new("tcp.stream")
local streams, heads = {}, {}

-- Whether eight bytes may be a magic: the constant one, or random ones, which text and many zeros are not.
local function is_magic(tvb)
    local constant = tostring(tvb(0, 8):bytes()):lower() == SOCKET_MAGIC
    if not constant then
        local raw, zeros, text = tvb(0, 8):raw(), 0, 0
        for i = 1, 8 do
            local b = raw:byte(i)
            if b == 0 then zeros = zeros + 1 end
            if b >= 0x20 and b < 0x7f or b == 10 or b == 13 then text = text + 1 end
        end
        if zeros > 2 or text == 8 then return false end
    end
    return true
end

local function hello_at(tvb)
    if tvb:len() < 12 then return nil end
    local kind = tvb(8, 4):le_uint()
    if kind < 1 or kind > 5 or not is_magic(tvb) then return nil end
    return kind
end

local function bare_check_in(tvb)
    if tvb:len() < 12 then return false end
    local size, rank, ranks = tvb(0, 4):le_uint(), tvb(4, 4):le_int(), tvb(8, 4):le_int()
    return (size == 64 or size == 136) and rank >= 0 and ranks > rank and ranks < 1000000
end

local function message(tree, tvb, from, to, offset, name, pinfo, s, length)
    local t = tree:add(nccl, tvb(from, to - from), "NCCL " .. name)
    t:add(f.query, tvb(from, 0), name):set_generated()
    t:add(f.offset, tvb(from, 0), UInt64(offset)):set_generated()
    t:add(f.length, tvb(from, 0), UInt64(length or to - from)):set_generated()
    pinfo.cols.info:append((s.listed == pinfo.number and ", " or "") .. name)
    s.listed = pinfo.number
    return t
end

local function frame(s, to_server, tvb, pinfo, tree, at, offset)
    if tvb:len() - at < 4 then return nil, "more" end
    local size = tvb(at, 4):le_int()
    if size < 0 or size > LARGEST then
        local t = tree:add(nccl, tvb(at), "NCCL: no frame")
        t:add(f.frame_length, tvb(at, 4), tvb(at, 4):le_uint())
        t:add_proto_expert_info(e_size)
        return nil, "claim"
    end
    if tvb:len() - at < 4 + size then return nil, "more" end
    local first = offset == (s.kind and 12 or 0)
    local checks_in = first and to_server and CHECK_INS[size]
    local t = message(tree, tvb, at, at + 4 + size, offset, checks_in and "check-in" or "frame", pinfo, s)
    t:add(f.frame_length, tvb(at, 4), tvb(at, 4):le_uint())
    if checks_in then
        t:add_le(f.rank, tvb(at + 4, 4))
        t:add_le(f.ranks, tvb(at + 8, 4))
        t:add(f.versions, tvb(at, 4), checks_in):set_generated()
    end
    if size > 0 then t:add(f.data, tvb(at + 4, size)) end
    return at + 4 + size
end

function nccl.dissector(tvb, pinfo, tree)
    if tvb:len() == 0 then return 0 end
    local all = { stream_field() }
    local id = all[#all].value
    local s = streams[id]
    if s == nil then
        s = { port = pinfo.dst_port, client = pinfo.src_port, kind = nil, done = { [true] = 0, [false] = 0 }, seen = {} }
        streams[id] = s
    end
    local to_server = pinfo.dst_port == s.port
    local key = tostring(to_server) .. pinfo.number .. ":" .. tvb:offset()
    local base_offset = s.seen[key] or s.done[to_server]
    s.seen[key] = base_offset
    pinfo.cols.protocol = "NCCL"
    if s.listed ~= pinfo.number then pinfo.cols.info = "" end
    local at, why = 0, nil
    if to_server and base_offset == 0 then
        -- Magic and type may come in two segments.
        if tvb:len() >= 4 and tvb:len() < 12 and not bare_check_in(tvb) and not CHECK_INS[tvb(0, 4):le_uint()] then why = "more" end
        local kind = hello_at(tvb)
        if kind then
            s.kind = kind
            local t = message(tree, tvb, 0, 12, 0, "handshake", pinfo, s)
            t:add(f.magic, tvb(0, 8))
            t:add_le(f.kind, tvb(8, 4))
            at = 12
        end
    end
    if to_server and base_offset == 8 and s.head and tvb:len() >= 4 then
        -- The magic came in a segment of its own, before anything told that this is NCCL.
        s.kind = tvb(0, 4):le_uint()
        local t = message(tree, tvb, 0, 4, 0, "handshake", pinfo, s, 12)
        t:append_text(", magic " .. tostring(s.head):lower() .. " in the segment before")
        t:add_le(f.kind, tvb(0, 4))
        at = 4
    end
    while at < tvb:len() and why == nil do
        if s.kind and s.kind ~= 1 then
            tree:add(nccl, tvb(at), "NCCL " .. KINDS[s.kind]):add(f.data, tvb(at))
            at = tvb:len()
            break
        end
        local stop
        stop, why = frame(s, to_server, tvb, pinfo, tree, at, base_offset + at)
        if stop == nil then break end
        at = stop
    end
    if at < tvb:len() and why == "more" then
        if not pinfo.visited then s.done[to_server] = base_offset + at end
        pinfo.desegment_offset = at
        pinfo.desegment_len = DESEGMENT_ONE_MORE_SEGMENT
        return tvb:len()
    end
    if not pinfo.visited then s.done[to_server] = base_offset + tvb:len() end
    return tvb:len()
end

nccl:register_heuristic("tcp", function(tvb, pinfo, tree)
    local all = { stream_field() }
    local id = all[#all].value
    if streams[id] == nil and not hello_at(tvb) and not bare_check_in(tvb) then
        local head = heads[id]
        if head == nil and not pinfo.visited then
            local alone = tvb:len() == 8 and is_magic(tvb)
            heads[id] = alone and { bytes = tvb(0, 8):bytes(), port = pinfo.dst_port, client = pinfo.src_port } or false
            return false
        end
        local kind = head and head.port == pinfo.dst_port and tvb:len() >= 4 and tvb(0, 4):le_uint()
        if not kind or kind < 1 or kind > 5 then return false end
        streams[id] = { port = head.port, client = head.client, head = head.bytes, done = { [true] = 8, [false] = 0 }, seen = {} }
    end
    nccl.dissector(tvb, pinfo, tree)
    return true
end)
DissectorTable.get("tcp.port"):add_for_decode_as(nccl)
function nccl.init()
    streams, heads = {}, {}
end
