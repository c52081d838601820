/** Loses, cuts, forges or delays requests and answers, as `random` says. */
export function unreliable(through: typeof fetch, random: () => number): typeof fetch {
  return async (input, init) => {
    const fate = random()
    if (fate < 0.06) throw new TypeError('fetch failed')
    const request = new Request(input, init)
    if (fate < 0.12) return new Response('<html>Bad gateway</html>', { status: 502 })
    if (fate < 0.18) {
      // A proxy may send a request twice where that is safe.
      if (request.headers.has('idempotency-key')) await (await through(request.clone())).arrayBuffer()
    }
    const response = await through(request)
    if (fate < 0.26) {
      await response.body?.cancel()
      throw new TypeError('fetch failed')
    }
    if (fate < 0.32) await new Promise((resolve) => setTimeout(resolve, random() * 3))
    if (fate > 0.4 || response.body === null) return response
    const { status, headers } = response
    return new Response(brokenOff(response.body, Math.floor(random() ** 2 * 20_000)), { status, headers })
  }
}

function brokenOff(body: ReadableStream<Uint8Array>, bytes_max: number): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let left = bytes_max
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read()
      if (done) return controller.close()
      if (value.length <= left) {
        left -= value.length
        return controller.enqueue(value)
      }
      if (left > 0) controller.enqueue(value.subarray(0, left))
      await reader.cancel()
      controller.error(new TypeError('terminated'))
    },
    cancel: (reason) => reader.cancel(reason),
  })
}
