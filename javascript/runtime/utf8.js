// Converts between UTF-8 and text, because QuickJS has no TextDecoder.

/** Decodes bytes to a text. Invalid bytes become U+FFFD. */
export function decode(bytes, start = 0, end = bytes.length) {
    let text = "";
    let at = start;
    while (at < end) {
        // Decodes up to 4096 ASCII bytes together: as many arguments as fit the engine's stack.
        let stop = at;
        const limit = Math.min(end, at + 4096);
        while (stop < limit && bytes[stop] < 0x80) stop++;
        if (stop > at) {
            text += String.fromCharCode.apply(null, bytes.subarray(at, stop));
            at = stop;
            continue;
        }
        const first = bytes[at++];
        const following = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
        let code = following === 3 ? first & 7 : following === 2 ? first & 15 : first & 31;
        let left = first < 0xf5 ? following : 0;
        const needed = left;
        while (left > 0 && at < end && (bytes[at] & 0xc0) === 0x80) {
            code = (code << 6) | (bytes[at++] & 0x3f);
            left--;
        }
        const least = [0, 0x80, 0x800, 0x10000][needed];
        const isValid = needed > 0 && left === 0 && code >= least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        text += isValid ? String.fromCodePoint(code) : "\ufffd";
    }
    return text;
}

/** Encodes a text to bytes. Lone surrogates become U+FFFD. */
export function encode(text) {
    const bytes = new Uint8Array(text.length * 3);
    let length = 0;
    for (let at = 0; at < text.length; at++) {
        let code = text.charCodeAt(at);
        if (code < 0x80) {
            bytes[length++] = code;
            continue;
        }
        if (code >= 0xd800 && code <= 0xdfff) {
            const next = text.charCodeAt(at + 1);
            const isPair = code < 0xdc00 && next >= 0xdc00 && next <= 0xdfff;
            code = isPair ? 0x10000 + ((code - 0xd800) << 10) + (next - 0xdc00) : 0xfffd;
            if (isPair) at++;
        }
        if (code < 0x800) bytes[length++] = 0xc0 | (code >> 6);
        else {
            if (code < 0x10000) bytes[length++] = 0xe0 | (code >> 12);
            else {
                bytes[length++] = 0xf0 | (code >> 18);
                bytes[length++] = 0x80 | ((code >> 12) & 0x3f);
            }
            bytes[length++] = 0x80 | ((code >> 6) & 0x3f);
        }
        bytes[length++] = 0x80 | (code & 0x3f);
    }
    return bytes.subarray(0, length);
}
