// Pages that are read from a folder may not start workers: the site's search then runs in a hidden frame instead.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) => urls.reduce((last, next) => last.then(() => load(inside, next)), Promise.resolve())
      load(inside, url).then(() => {
        const waiting = this.waiting
        this.waiting = null
        waiting.forEach((data) => this.postMessage(data))
      })
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else {
        const inside = this.frame.contentWindow
        setTimeout(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
      }
    }

    terminate() {
      this.frame.remove()
    }
  }

  function load(inside, url) {
    return new Promise((resolve, reject) => {
      const script = inside.document.createElement("script")
      script.src = url
      script.onload = resolve
      script.onerror = reject
      inside.document.head.append(script)
    })
  }

  window.IFrameWorker = IFrameWorker // the search asks for this name
  window.Worker = IFrameWorker
}
