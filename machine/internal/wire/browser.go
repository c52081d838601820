package wire

const BrowserBytesMax = 16 << 20
