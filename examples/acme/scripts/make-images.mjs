/**
 * `npm run images`: draws the product pictures of the development data as
 * SVG and renders them to `apps/web/public/products/*.webp`.
 */
import { createRequire } from 'node:module';
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const sharp = createRequire(new URL('../apps/worker/package.json', import.meta.url))('sharp');
const out = fileURLToPath(new URL('../apps/web/public/products/', import.meta.url));

/** Horizontal shading, darker at the edges, so that flat shapes look round. */
const round = (id, light, base, dark) =>
  `<linearGradient id="${id}" x1="0" x2="1"><stop offset="0" stop-color="${dark}"/><stop offset=".28" stop-color="${light}"/><stop offset=".62" stop-color="${base}"/><stop offset="1" stop-color="${dark}"/></linearGradient>`;
const down = (id, top, bottom) => `<linearGradient id="${id}" x2="0" y2="1"><stop offset="0" stop-color="${top}"/><stop offset="1" stop-color="${bottom}"/></linearGradient>`;
const shadow = (cx, cy, rx, ry = 22, o = 0.32) => `<ellipse cx="${cx}" cy="${cy}" rx="${rx}" ry="${ry}" fill="#1d1510" opacity="${o}" filter="url(#blur)"/>`;

/** A wall, a table (drawn with a margin that is cut off, because blurs fade at the edge), and light that falls in from the left. */
const scene = ({ wall, table, horizon = 640, defs = '', light = 0.35 }, body) => `
<svg xmlns="http://www.w3.org/2000/svg" width="1100" height="1100" viewBox="-100 -100 1100 1100">
<defs>
${down('wall', wall[0], wall[1])}${down('table', table[0], table[1])}${defs}
<filter id="blur" x="-50%" y="-200%" width="200%" height="500%"><feGaussianBlur stdDeviation="16"/></filter>
<filter id="soft" x="-50%" y="-50%" width="200%" height="200%"><feGaussianBlur stdDeviation="42"/></filter>
<filter id="slight"><feGaussianBlur stdDeviation="5"/></filter>
</defs>
<rect x="-100" y="-100" width="1100" height="1100" fill="url(#wall)"/>
<g filter="url(#soft)" opacity="${light}"><path d="M-300 -200 L700 -200 L120 ${horizon + 40} L-300 ${horizon + 240}Z" fill="#fff"/></g>
${horizon < 900 ? `<rect x="-100" y="${horizon}" width="1100" height="${1000 - horizon}" fill="url(#table)"/><rect x="-100" y="${horizon}" width="1100" height="3" fill="#fff" opacity=".25"/>` : ''}
${body}</svg>`;

const pictures = {
  'aurora-table-lamp': scene(
    { wall: ['#e9d9c6', '#dcc3a6'], table: ['#b98c62', '#a67a52'],
      defs: `${round('base', '#e98f6b', '#d0714d', '#a84f31')}${down('shade', '#fff6e3', '#f7d9a2')}<radialGradient id="glow"><stop offset="0" stop-color="#fff3cf" stop-opacity=".95"/><stop offset="1" stop-color="#fff3cf" stop-opacity="0"/></radialGradient>` },
    `<ellipse cx="450" cy="330" rx="400" ry="330" fill="url(#glow)"/>${shadow(470, 742, 190)}
     <path d="M372 738 C330 640 372 560 426 522 L474 522 C528 560 570 640 528 738 Z" fill="url(#base)"/><ellipse cx="450" cy="738" rx="78" ry="12" fill="#8f4128"/>
     <rect x="436" y="440" width="28" height="90" rx="8" fill="#c9a25b"/>
     <path d="M330 178 L570 178 L668 448 Q450 486 232 448 Z" fill="url(#shade)"/><path d="M330 178 Q450 196 570 178 Q450 160 330 178Z" fill="#fffdf5"/>
     <path d="M232 448 Q450 486 668 448" fill="none" stroke="#e9bf7d" stroke-width="5"/>`,
  ),
  'dune-pendant-light': scene(
    { wall: ['#c9d2cc', '#aebcb3'], table: ['#8b9c91', '#8b9c91'], horizon: 900,
      defs: `<clipPath id="domecut"><path d="M168 540 C178 400 300 322 450 322 C600 322 722 400 732 540 Z"/></clipPath>${round('dome', '#f6efe2', '#e4d6bf', '#b9a688')}<radialGradient id="glow" cy=".1"><stop offset="0" stop-color="#fff4d2" stop-opacity=".95"/><stop offset="1" stop-color="#fff4d2" stop-opacity="0"/></radialGradient>` },
    `<rect x="446" y="-100" width="8" height="400" fill="#3b3a36"/><g filter="url(#soft)"><path d="M210 560 L60 1000 L840 1000 L690 560Z" fill="url(#glow)"/></g>
     <path d="M418 288 h64 v44 h-64z" fill="#c49a54"/>
     <path d="M168 540 C178 400 300 322 450 322 C600 322 722 400 732 540 Z" fill="url(#dome)"/>
     <g clip-path="url(#domecut)">${[0, 1, 2, 3, 4].map((i) => `<path d="M150 ${500 - i * 36} Q450 ${540 - i * 38} 750 ${500 - i * 36}" fill="none" stroke="#a08a68" stroke-opacity=".28" stroke-width="4"/>`).join('')}</g>
     <ellipse cx="450" cy="540" rx="282" ry="34" fill="#8d7a5c"/><ellipse cx="450" cy="544" rx="262" ry="26" fill="#fff0c4"/><ellipse cx="450" cy="548" rx="92" ry="16" fill="#fffdf2"/>`,
  ),
  'ember-candle': scene(
    { wall: ['#4b3b3f', '#352a2e'], table: ['#5e4642', '#4a3633'], light: 0.08,
      defs: `${round('glass', '#f0b27f', '#cf7f52', '#8b4a33')}<radialGradient id="glow"><stop offset="0" stop-color="#ffcf87" stop-opacity=".85"/><stop offset="1" stop-color="#ffcf87" stop-opacity="0"/></radialGradient><radialGradient id="flame" cy=".7"><stop offset="0" stop-color="#fff8dc"/><stop offset=".6" stop-color="#ffd06b"/><stop offset="1" stop-color="#ff9a3d"/></radialGradient>` },
    `<ellipse cx="450" cy="380" rx="420" ry="370" fill="url(#glow)"/>${shadow(450, 748, 200, 24, 0.5)}
     <path d="M290 440 L610 440 L596 728 Q450 762 304 728 Z" fill="url(#glass)"/><ellipse cx="450" cy="440" rx="160" ry="32" fill="#ffe0ae"/><ellipse cx="450" cy="446" rx="140" ry="24" fill="#fff0cf"/>
     <rect x="446" y="390" width="7" height="56" fill="#3a2a22"/><path d="M450 262 C496 330 490 392 450 404 C410 392 404 330 450 262Z" fill="url(#flame)"/>
     <rect x="366" y="552" width="168" height="104" rx="6" fill="#fbf3e4"/><text x="450" y="604" font-family="DejaVu Serif, Georgia, serif" font-size="32" text-anchor="middle" fill="#4b3b3f" letter-spacing="4">EMBER</text><rect x="410" y="622" width="80" height="2.5" fill="#b98a5e"/>`,
  ),
  'harbour-teapot': scene(
    { wall: ['#cfdbe0', '#b4c6ce'], table: ['#d9c7ab', '#c8b391'], defs: `${round('pot', '#5f8ba0', '#3f6b82', '#274a5d')}` },
    `${shadow(460, 752, 270)}
     <path d="M262 560 C170 520 150 440 118 424 C108 416 128 398 150 408 C210 436 230 500 300 512Z" fill="#35607a"/>
     <path d="M600 480 C760 400 810 560 760 620 C730 664 676 668 620 660" fill="none" stroke="#2f566c" stroke-width="30" stroke-linecap="round"/>
     <path d="M246 590 C246 470 340 400 450 400 C560 400 654 470 654 590 C654 690 580 748 450 748 C320 748 246 690 246 590Z" fill="url(#pot)"/>
     <path d="M352 412 Q450 368 548 412 Q548 432 450 436 Q352 432 352 412Z" fill="#4a788f"/><rect x="436" y="352" width="28" height="34" rx="10" fill="#35607a"/><circle cx="450" cy="340" r="28" fill="#c49a54"/><circle cx="441" cy="331" r="8" fill="#ecd09a"/>
     <path d="M290 540 C304 480 340 450 372 440" fill="none" stroke="#fff" stroke-opacity=".35" stroke-width="12" stroke-linecap="round"/>`,
  ),
  'morning-mugs': scene(
    { wall: ['#f0dfd3', '#e6cbb8'], table: ['#c5a180', '#b08a67'], defs: `${round('a', '#fffaf0', '#efe2cd', '#c9b597')}${round('b', '#93a98c', '#748d6d', '#536a4e')}` },
    `${shadow(330, 742, 160)}${shadow(610, 772, 170)}
     <path d="M238 480 C140 470 140 640 250 640" fill="none" stroke="#e0d0b5" stroke-width="28"/><path d="M214 430 L446 430 L432 718 Q330 748 228 718Z" fill="url(#a)"/><ellipse cx="330" cy="430" rx="116" ry="26" fill="#d8c6a7"/><ellipse cx="330" cy="436" rx="98" ry="19" fill="#5b3a29"/>
     <path d="M717 520 C820 510 820 680 706 680" fill="none" stroke="#65805f" stroke-width="28"/><path d="M484 470 L730 470 L716 750 Q607 780 498 750Z" fill="url(#b)"/><ellipse cx="607" cy="470" rx="123" ry="28" fill="#5c7457"/><ellipse cx="607" cy="477" rx="104" ry="20" fill="#4a2e20"/>
     <g fill="none" stroke="#fff" stroke-width="10" stroke-linecap="round" opacity=".5" filter="url(#slight)"><path d="M310 380 C290 340 340 320 316 270"/><path d="M360 384 C342 350 386 330 366 292"/><path d="M590 420 C570 380 620 360 596 306"/></g>`,
  ),
  'low-tide-bowl': scene(
    { wall: ['#d9dccf', '#c3c9b5'], table: ['#e3d6bf', '#d0bf9f'], defs: `${round('bowl', '#e9e4da', '#cfc6b6', '#a2967f')}${down('in', '#7fa3a3', '#b9cfc8')}` },
    `${shadow(450, 742, 260)}
     <path d="M350 700 h200 l16 44 q-116 20 -232 0z" fill="#a69a84"/><path d="M170 500 C190 650 300 726 450 726 C600 726 710 650 730 500Z" fill="url(#bowl)"/>
     <ellipse cx="450" cy="500" rx="280" ry="72" fill="#efe9dd"/><ellipse cx="450" cy="506" rx="258" ry="60" fill="url(#in)"/>
     <g><circle cx="372" cy="470" r="62" fill="#e39a3b"/><circle cx="352" cy="448" r="16" fill="#f4c06d"/><circle cx="486" cy="458" r="66" fill="#d9822b"/><circle cx="466" cy="434" r="17" fill="#f0ad58"/><circle cx="572" cy="490" r="52" fill="#e8a447"/><path d="M486 394 q6 -26 34 -34 q-2 28 -34 34z" fill="#5e7a47"/></g>
     <path d="M192 506 A258 60 0 0 0 708 506 A280 72 0 0 1 192 506Z" fill="#efe9dd"/><path d="M171 512 C182 566 204 606 236 640 C214 590 200 550 194 520Z" fill="#fff" opacity=".35"/>`,
  ),
  'olive-wood-board': scene(
    { wall: ['#e4e0d8', '#d2cabd'], table: ['#8e8478', '#7b7166'], horizon: 700, defs: `<linearGradient id="wood" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#d3a468"/><stop offset=".5" stop-color="#b98449"/><stop offset="1" stop-color="#9a6a38"/></linearGradient><clipPath id="cut"><path d="M300 330 Q300 290 340 284 L410 276 Q424 274 424 250 L424 150 Q424 120 450 120 Q476 120 476 150 L476 250 Q476 274 490 276 L560 284 Q600 290 600 330 L612 730 Q612 770 572 772 L328 772 Q288 770 288 730Z"/></clipPath>` },
    `${shadow(470, 776, 220)}<path d="M330 340 L640 300 L660 720 L330 776Z" fill="#1d1510" opacity=".18" filter="url(#blur)"/>
     <g clip-path="url(#cut)"><rect x="280" y="100" width="340" height="700" fill="url(#wood)"/>
     ${[0, 1, 2, 3, 4, 5, 6].map((i) => `<path d="M${296 + i * 48} 100 C${330 + i * 40} 300 ${258 + i * 54} 460 ${306 + i * 46} 800" fill="none" stroke="#7d5227" stroke-opacity="${0.22 + (i % 3) * 0.1}" stroke-width="${4 + (i % 2) * 5}"/>`).join('')}
     <ellipse cx="380" cy="520" rx="30" ry="64" fill="none" stroke="#7d5227" stroke-opacity=".45" stroke-width="7"/><ellipse cx="380" cy="520" rx="12" ry="34" fill="#7d5227" opacity=".45"/></g>
     <circle cx="450" cy="168" r="15" fill="#d9d2c6"/><path d="M300 330 Q300 290 340 284 L410 276" fill="none" stroke="#f0cd95" stroke-width="5" opacity=".8"/>`,
  ),
  'arc-vase': scene(
    { wall: ['#e7d3d0', '#d8b8b3'], table: ['#f0e6dc', '#dfd0c0'], defs: `${round('vase', '#f4f1ec', '#dcd6cc', '#a9a294')}` },
    `${shadow(460, 762, 180)}
     <g fill="none" stroke="#6d7a55" stroke-width="7" stroke-linecap="round"><path d="M446 420 C430 300 360 220 300 120"/><path d="M452 420 C470 280 520 200 560 96"/><path d="M450 420 C448 300 440 220 432 70"/></g>
     ${[[300, 120], [332, 172], [366, 226], [560, 96], [536, 156], [510, 218], [432, 70], [438, 130], [442, 196]].map(([x, y], i) => `<g transform="translate(${x} ${y}) rotate(${i * 37})"><path d="M0 0 C30 -30 66 -24 84 0 C66 24 30 30 0 0Z" fill="${i % 2 ? '#7f8f62' : '#94a575'}"/><path d="M0 0 C-30 -30 -66 -24 -84 0 C-66 24 -30 30 0 0Z" fill="${i % 2 ? '#6d7d53' : '#84956a'}"/></g>`).join('')}
     <path d="M412 402 h76 v50 c0 40 132 90 132 196 c0 70 -60 114 -170 114 s-170 -44 -170 -114 c0 -106 132 -156 132 -196z" fill="url(#vase)"/><ellipse cx="450" cy="402" rx="38" ry="10" fill="#8f8878"/>
     <path d="M318 640 c4 -60 50 -96 84 -128" fill="none" stroke="#fff" stroke-width="13" stroke-linecap="round" opacity=".7"/>`,
  ),
  'heather-throw': scene(
    { wall: ['#dfe0e6', '#c8c9d4'], table: ['#b8957a', '#a38066'], horizon: 690, defs: `${down('f1', '#9c86a8', '#7b668b')}${down('f2', '#ad98b8', '#8b769b')}${down('f3', '#bfadc8', '#9a86aa')}` },
    `${shadow(460, 762, 290)}
     <rect x="190" y="610" width="520" height="146" rx="62" fill="url(#f1)"/><rect x="204" y="490" width="500" height="142" rx="62" fill="url(#f2)"/><rect x="214" y="376" width="476" height="136" rx="60" fill="url(#f3)"/>
     ${[[190, 610, 520, 146], [204, 490, 500, 142], [214, 376, 476, 136]].map(([x, y, w, h]) => [0.3, 0.55, 0.78].map((f) => `<path d="M${x + 34} ${y + h * f} H${x + w - 30}" stroke="#5d4a6c" stroke-opacity=".25" stroke-width="5" stroke-dasharray="16 10"/>`).join('')).join('')}
     ${Array.from({ length: 17 }, (_, i) => `<path d="M${250 + i * 25} 508 q${(i % 3) * 5 - 5} 40 ${(i % 2) * 8 - 4} 82" stroke="#d9cbe0" stroke-width="6" stroke-linecap="round" fill="none"/>`).join('')}
     <path d="M240 400 q210 -34 420 0" stroke="#fff" stroke-opacity=".4" stroke-width="8" fill="none" stroke-linecap="round"/>`,
  ),
  'tempo-wall-clock': scene(
    { wall: ['#2f4a45', '#22383a'], table: ['#22383a', '#22383a'], horizon: 900, light: 0.12, defs: `<radialGradient id="face" cx=".4" cy=".35"><stop offset="0" stop-color="#fffaf0"/><stop offset="1" stop-color="#e9dcc4"/></radialGradient>` },
    `<circle cx="476" cy="482" r="300" fill="#0d1716" opacity=".55" filter="url(#soft)"/><circle cx="450" cy="440" r="300" fill="#b8864b"/><circle cx="450" cy="440" r="284" fill="#d9ab6c"/><circle cx="450" cy="440" r="270" fill="url(#face)"/>
     ${Array.from({ length: 12 }, (_, i) => `<rect x="${i % 3 ? 446 : 443}" y="192" width="${i % 3 ? 8 : 14}" height="${i % 3 ? 34 : 52}" rx="4" fill="#2f4a45" transform="rotate(${i * 30} 450 440)"/>`).join('')}
     <g stroke-linecap="round"><path d="M450 440 L345 330" stroke="#22302f" stroke-width="18"/><path d="M450 440 L594 296" stroke="#22302f" stroke-width="12"/><path d="M450 500 L450 230" stroke="#d0714d" stroke-width="5" transform="rotate(150 450 440)"/></g><circle cx="450" cy="440" r="20" fill="#d0714d"/><circle cx="450" cy="440" r="7" fill="#fffaf0"/>`,
  ),
  'linen-notebook': scene(
    { wall: ['#dcd7cf', '#cfc8bc'], table: ['#cfc8bc', '#cfc8bc'], horizon: 900, defs: `<linearGradient id="cover" x2="1" y2="1"><stop offset="0" stop-color="#d98a5b"/><stop offset="1" stop-color="#b9663a"/></linearGradient>` },
    `<g transform="rotate(-9 450 450)"><rect x="264" y="196" width="420" height="560" rx="14" fill="#1d1510" opacity=".3" filter="url(#blur)"/><rect x="262" y="178" width="410" height="552" rx="12" fill="#f6efe0"/><rect x="254" y="170" width="410" height="552" rx="12" fill="url(#cover)"/>
     ${Array.from({ length: 46 }, (_, i) => `<path d="M254 ${176 + i * 12} h410" stroke="#fff" stroke-opacity=".06" stroke-width="3"/>`).join('')}${Array.from({ length: 34 }, (_, i) => `<path d="M${260 + i * 12} 170 v552" stroke="#000" stroke-opacity=".035" stroke-width="3"/>`).join('')}
     <rect x="254" y="170" width="52" height="552" rx="12" fill="#8f4a28" opacity=".45"/><rect x="604" y="170" width="16" height="552" fill="#40312a"/><rect x="372" y="300" width="180" height="110" rx="5" fill="#fbf6ea"/><path d="M396 340 h132 M396 366 h96" stroke="#8f7f6b" stroke-width="5" stroke-linecap="round"/></g>
     <g transform="rotate(28 700 560)"><rect x="690" y="262" width="30" height="470" rx="6" fill="#1d1510" opacity=".28" filter="url(#blur)"/><rect x="682" y="250" width="28" height="420" fill="#2f4a3c"/><rect x="682" y="250" width="9" height="420" fill="#4d6d5c"/><path d="M682 670 l14 64 l14 -64z" fill="#e8cfa4"/><path d="M691 711 l5 23 l5 -23z" fill="#222"/><rect x="682" y="232" width="28" height="26" rx="5" fill="#c49a54"/></g>`,
  ),
  'perch-stool': scene(
    { wall: ['#e5dccb', '#d5c8b0'], table: ['#a9b3a2', '#96a18f'], horizon: 620, defs: `<linearGradient id="seat" x2="1"><stop offset="0" stop-color="#e0b983"/><stop offset="1" stop-color="#b78a51"/></linearGradient>${round('leg', '#d9b07a', '#c1935a', '#8e673a')}` },
    `${shadow(450, 800, 260, 24)}
     <path d="M372 330 L330 790 L362 790 L408 330Z" fill="#94703f"/><path d="M528 330 L570 790 L538 790 L492 330Z" fill="#94703f"/>
     <path d="M310 330 L226 806 L264 806 L352 330Z" fill="url(#leg)"/><path d="M590 330 L674 806 L636 806 L548 330Z" fill="url(#leg)"/>
     <rect x="272" y="596" width="356" height="22" rx="11" fill="#a67c48"/><ellipse cx="450" cy="336" rx="226" ry="56" fill="#8e673a"/><ellipse cx="450" cy="312" rx="226" ry="56" fill="url(#seat)"/>
     <path d="M250 306 Q450 262 650 306 M270 324 Q450 284 630 324 M306 342 Q450 316 594 342" fill="none" stroke="#8e673a" stroke-opacity=".35" stroke-width="5"/>`,
  ),
};

await mkdir(out, { recursive: true });
let total = 0;
for (const [name, svg] of Object.entries(pictures)) {
  const { size } = await sharp(Buffer.from(svg)).extract({ left: 100, top: 100, width: 900, height: 900 }).webp({ quality: 84, effort: 6 }).toFile(`${out}${name}.webp`);
  total += size;
}
process.stdout.write(`${Object.keys(pictures).length} pictures, ${Math.round(total / 1024)} kB\n`);
