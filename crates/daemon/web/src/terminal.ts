// A terminal of a room. It shows; it types only after a click of the reader.
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { styleByObjects } from './policy.js';

/** What the daemon says beside the output. */
type Said =
  | { size: { rows: number; columns: number } }
  | { typing: boolean }
  | { ended: string };

/** The most lines that are kept above the screen. */
const SCROLLBACK = 5000;

/** Control sequences that would leave the terminal: titles, colours of the page, links, the clipboard, notifications, files. */
const IGNORED = [0, 1, 2, 4, 7, 8, 9, 10, 11, 12, 50, 52, 99, 104, 110, 111, 112, 133, 633, 777, 1337];

function colours(): { background: string; foreground: string; cursor: string } {
  const of = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return { background: of('--log'), foreground: of('--ink'), cursor: of('--link') };
}

function make(): Terminal {
  const terminal = new Terminal({
    allowProposedApi: false,
    convertEol: false,
    cursorBlink: false,
    disableStdin: true,
    fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
    fontSize: 13,
    linkHandler: { activate: () => undefined, allowNonHttpProtocols: false },
    minimumContrastRatio: 4.5,
    scrollback: SCROLLBACK,
    theme: colours(),
    windowOptions: {},
  });
  for (const number of IGNORED) terminal.parser.registerOscHandler(number, () => true);
  return terminal;
}

function byId<T extends HTMLElement>(id: string, kind: new () => T): T | null {
  const found = document.getElementById(id);
  return found instanceof kind ? found : null;
}

class View {
  private typing = false;
  private readonly terminal = make();
  private readonly fit = new FitAddon();
  private readonly socket: WebSocket;

  constructor(
    private readonly place: HTMLElement,
    private readonly button: HTMLButtonElement,
    private readonly state: HTMLElement,
  ) {
    this.terminal.loadAddon(this.fit);
    this.terminal.open(place);
    const { sandbox, exec, token } = place.dataset;
    const at = new URLSearchParams({ sandbox: sandbox ?? '', exec: exec ?? '' });
    this.socket = new WebSocket(`wss://${location.host}/terminal?${at}`);
    this.socket.binaryType = 'arraybuffer';
    this.socket.onopen = () => this.say({ hello: { token: token ?? '' } });
    this.socket.onmessage = (event: MessageEvent<ArrayBuffer | string>) => this.hear(event.data);
    this.socket.onclose = () => this.close('The terminal is closed. Reload the page to look again.');
    this.terminal.onData((text) => this.type(new TextEncoder().encode(text)));
    this.terminal.onBinary((text) => this.type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    this.terminal.attachCustomKeyEventHandler((event) => this.isForTerminal(event));
    this.button.addEventListener('click', (event) => { if (event.isTrusted) this.take(!this.typing); });
    this.readAloud();
    new ResizeObserver(() => this.resize()).observe(place);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { this.terminal.options.theme = colours(); });
  }

  /** What is written is put beside the terminal for screen readers, if the reader wants it: a flood of output takes far longer then. */
  private readAloud(): void {
    const choice = byId('terminal-reader', HTMLInputElement);
    if (!choice) return;
    choice.checked = localStorage.getItem('screen-reader') === 'yes';
    const apply = (): void => { this.terminal.options.screenReaderMode = choice.checked; };
    apply();
    choice.addEventListener('change', () => {
      localStorage.setItem('screen-reader', choice.checked ? 'yes' : 'no');
      apply();
    });
  }

  private say(word: object): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(word));
  }

  private hear(data: ArrayBuffer | string): void {
    if (typeof data !== 'string') {
      // The daemon sends no more than the terminal has drawn.
      this.terminal.write(new Uint8Array(data), () => this.say({ drawn: data.byteLength }));
      return;
    }
    const said = JSON.parse(data) as Said;
    if ('size' in said && !this.typing) this.terminal.resize(said.size.columns, said.size.rows);
    if ('typing' in said) this.show(said.typing);
    if ('ended' in said) this.close(said.ended);
  }

  private show(typing: boolean): void {
    const stops = this.typing && !typing;
    this.typing = typing;
    this.terminal.options.disableStdin = !typing;
    this.terminal.options.cursorBlink = typing;
    this.button.hidden = false;
    this.button.textContent = typing ? 'Stop typing' : 'Type here';
    this.state.textContent = typing ? 'You are typing. Ctrl ] stops it.' : 'Read-only.';
    this.place.classList.toggle('typing', typing);
    if (typing) {
      this.resize();
      this.terminal.focus();
    } else if (stops) {
      this.button.focus({ preventScroll: true });
    }
  }

  private close(why: string): void {
    if (this.place.dataset['closed']) return;
    this.place.dataset['closed'] = 'yes';
    this.typing = false;
    this.terminal.options.disableStdin = true;
    this.button.hidden = true;
    this.state.textContent = why;
    this.place.classList.remove('typing');
  }

  private take(typing: boolean): void {
    const size = this.fit.proposeDimensions();
    if (typing && size) this.say({ type: { rows: size.rows, columns: size.cols } });
    else this.say({ look: {} });
  }

  private type(bytes: Uint8Array<ArrayBuffer>): void {
    // In pieces: the daemon takes no long message.
    for (let at = 0; this.typing && at < bytes.length; at += 16384) this.socket.send(bytes.slice(at, at + 16384));
  }

  private resize(): void {
    if (!this.typing) return;
    this.fit.fit();
    this.say({ size: { rows: this.terminal.rows, columns: this.terminal.cols } });
  }

  /** Keys that are not the terminal's: the one that lets go, and all of them while nobody types. */
  private isForTerminal(event: KeyboardEvent): boolean {
    if (!this.typing) return false;
    if (event.ctrlKey && event.key === ']') {
      if (event.type === 'keydown') this.take(false);
      return false;
    }
    return true;
  }
}

const place = byId('terminal', HTMLDivElement);
const button = byId('terminal-type', HTMLButtonElement);
const state = byId('terminal-state', HTMLElement);
if (place && button && state) {
  styleByObjects();
  new View(place, button, state);
}
