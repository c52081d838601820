import http from 'node:http'
import { patience } from './patience.ts'

export function isOk(options: http.RequestOptions): Promise<boolean> {
  return get(options).then(
    ({ status }) => status === 200,
    () => false,
  )
}

export function get(options: http.RequestOptions): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const request = http.get({ ...options, agent: false, timeout: patience(30_000) }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
    request.on('error', reject)
    request.on('timeout', () => request.destroy(new Error('No answer in 30 seconds')))
  })
}
