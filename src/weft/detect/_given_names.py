"""Given names that people of many languages bear, in lower case; written by hand, not complete."""

from weft.detect.tables import table

COMMON = table(
    """
aad aarne aaron abby abdul abdullah abel abena abigail abraham ada adalbert adam adao adeel
adela adele aditi adolf adriaan adrian adriana adrien afonso agata agathe agnes agneta agnieszka
agoston agust agustin ahmad ahmed ahti aida aidan aiko aileen aimee ainhoa aino aisha aitor
akash akiko akira akos akosua aladar alain alan alana albert alberto albin alejandra alejandro
alejo aleksandar aleksandr aleksandra aleksi aleksy alena alessandra alessandro alessia alex
alexander alexandra alexandre alexei alexey alexis alfonso alfred alfredo alice alicia alina
alison alistair alma alois alvaro ama amadeo amalia amalie amanda amber amelia amina amir amit
amna amparo amy ana anahi ananya anastasia anastazja anatoly anders andor andrea andreas andrei
andreina andrej andres andrew andrey andrzej andy anett anette anfisa angela angelica angelina
angelo angus anil anita anja anjali anke anna annabelle anne anneli annelies annemarie annemiek
annette annie annika anouk anselm antal ante antero anthony antje antoine anton antonella antoni
antonia antonin antonio antti anu anya aoi aoife araceli archie arend ari ariana arie ariel arif
aristoteles arjun arkady armando armas arne arni arnold aron artem arthur arto arturo arun asa
asger ashley ashok asier asif aslam aslan aslaug asma astrid athena attila aubrey audrey audun
august auguste augustin aurelia aurelie aurora ava axel aya ayaka ayanda ayesha ayumi balazs
balint barbara barbora barnabas barry bart bartek bartlomiej bartosz bas basil bastiaan bastian
beata beatrice beatrix beatriz becky begona bela belinda belle ben bence benedetta benedikt
benjamin benoit bent bente berit bernadette bernard bernardo bernd bernhard bert berta bertha
bertram beth bethany betty bianca bilal birgit birgitta birgitte birna bjarne bjarni bjorg bjork
bjorn blanca blazej bo bob bogdan bogdana boglarka bogumil boguslaw bohumil bohuslav bojan
bojana bongani boris borys botond bozena bozidar brad bradley bram brandon branka branko brenda
brendan brent bret brian bridget brigitte britt britta brittany bronislaw brooke bruce bruno
bryan bryce bryndis brynjar caio caitlin caleb calvin camila camilla camille candela candice
carina carl carla carlo carlos carme carmen carol carolina caroline carolyn carsten casey caspar
cassandra catalina caterina catharina catherine cathy cecilia cecilie cedric cees celeste celia
celina celine cesar chad chandra chantal charlene charles charlie chiara chidi chie chioma chloe
chris christa christel christiane christina christine christoffer christoph christophe
christopher chuck cindy claes claire clara clarissa claudia claudio claus clemens clement
clifford clint clive coen colette colin colleen conchita connor conor constance corinna corinne
cornelia cornelius cosima courtney craig cristian cristiano cristina cristobal csaba csilla
curtis cynthia cyril cyrus czeslaw daan dagfinn dagmar dagny daiki daisuke dalia dalibor damian
damien damir damjan dan dana daniel daniela daniele danielle danijel danny dante danuta daphne
daria dario darius dariusz darlene darren dave david davide davor dawid deanna debbie deborah
deepak deirdre delia denes denis denisa denise dennis derek desiree detlef devin dezso diana
diane didier diego dieter dietmar dietrich dilip dimitri dimitris dina dino dirk divya dmitri
dmitry dolores dolors domenico dominic dominik dominika dominique donald donna donovan dora
doreen doris dorota dorothea dorothee dorothy doug douglas dragan drago drahomira duarte
dubravka duncan dusan dusko dustin dylan eamon ebba ebbe eberhard eddie edgar edina edith edmund
edna edoardo edu eduard eduardo edvard edward edwin edyta eero eetu eevi efim egon egor eija
eila eileen einar eino eirik eirin eivind ekaterina elaine eldbjorg eleanor elemer elena eleni
eleonora elfriede eli eliana elias elif elijah elin elina elisa elisabet elisabeth elise eliska
eliza elizabeth elizaveta elke ella ellen ellie elliot elmar elmer elodie eloise elsa elsbeth
else elske elvira elzbieta ema emeka emese emiel emil emile emilia emiliano emilie emily emma
emmanuel eneko eniko enrico enrique ensio enzo eric erica erich erik erika erin erkki erla
erlend ernest ernesto ernst ervin erwin esko esmee espen esteban estelle esther eszter ethan
etienne eugene eugenia eugenio eugeniusz eunice eva evan evelyn evert evgeny ewa ewan eyjolfur
fabian fabien fabio fabrice fabricio fabrizio faddey faina faisal fang farai farid fatima fatma
federica federico fedor felicia felicity feliks felipe felix femke ferdinand ferenc ferencz
fermin fernanda fernando filip filipp filippa filippo finn fiona flavia flavio fleur floor
florian floris floyd frances francesca francesco francine francis francisca francisco franciska
franco francois francoise frank franklin frantisek franz franziska freddy frederic frederick
frederik frederikke freek frida frieda friedrich fritz frode fumiko funmi fyodor gabor gabriel
gabriela gabriele gabriella gael galina gareth gary gaspard gaurav gavin geert geertje geir
gemma genevieve gennady genowefa geoffrey georg george georges georgina georgy gerald geraldine
gerard gerben gerda gergely gergo gerhard germaine gerrit gertrud gertrude gianluca gianni gijs
giorgia giorgio giovanna giovanni gisele giselle gisli giulia giuliana giulio giuseppe
giuseppina gladys glenda glenn gloria gonzalo goran gordana gordon gottfried grazia grazyna greg
gregor gregorio gregory greta grethe grigory gro grzegorz gudmundur gudrun guido guilherme
guillaume guillermo gunilla gunnar gunnhildur gunter gunther gustav gustavo gustaw gwen
gwendolyn gyongyi gyorgy gyula haakon hajnalka hakan hal halina halla halldor hamid hamza hana
hanako hanna hanna-mari hannah hanne hanneke hannes hannu hans hanspeter harald harm harold
harriet harry haruka haruki harvey hasan hassan hayley heather hector hedvig hege heidi heike
heikki heiko heinrich heinz heitor heleen helen helena helene helga helge helgi helmut helmuth
hendrik henk henning henri henriette henrik henrique henry henryk henryka herbert heribert
herman hermann hermine hidde hijiri hilary hilda hilde hildegard hildur hilkka hina hiroko
hiroshi hjalmar holger holly homero hong horst hrafn hrvoje hubert hugh hugo hui humberto
hussein hynek ian iara ibolya ibrahim ichiro ida ifeoma ignacio ignasi ignatius igor iida iiro
iker ilan ildi ildiko ileana ilkka ilmari ilona ilse ilya imke imran imre inaki indira ineke
ines inessa inga inge ingeborg ingemar inger ingibjorg ingo ingrid inka inkeri innokenty iosif
ippolit iqbal irena irene ireneusz irina irma irmgard isaac isabel isabella isabelle isak ismael
ismail istvan itziar ivan ivana ivar ivica ivo iwona izabela jaakko jaana jaap jacek jacinto
jack jackie jacob jacoba jacqueline jacques jadranka jadwiga jaime jakob jakub jalmari james
jamie jamila jan jana jane janet janez janice janina janis janka janko janneke jannik janos
janusz jari jarmila jarmo jarno jaromir jaroslav jaroslaw jasmin jasmina jasmine jason jasper
javed javier jay jayden jeanette jeanne jedrzej jeff jeffrey jelena jelle jenna jennie jennifer
jenny jeno jens jeremiah jeremy jeroen jerome jerry jerzy jesper jess jesse jessica jessie jesus
jill jim jimmy jindrich jing jiri jirina jiro jitka joachim joan joana joanna joanne joao
joaquim joaquin jocelyn jodi joel joelle joep joerg johan johann johanna johannes john johnny
jolan jolanda jolanta jon jonah jonas jonathan jonna joonas joost jordi jorge jorgen joris jorn
jorunn jos josef josefa josefina josefine joseph josephine joshua josie josip jouni joyce jozef
juan juana juanita judit judith judy juha juhani juho jukka julia julian juliana juliane julie
julien juliet julieta julio julius jun junko jurgen juri jussi justin justyna jutta jyrki
kaarina kaija kaisa kaito kalervo kalle kalman kamil kamila kamran karel karen kari karim karin
karina karl karla karolina karoly karsten kashif kasia kasimir kasper katalin katarina katarzyna
kate katerina katharina katherine kathleen kathrin kathryn kathy katie katja katrin katrina
katrine katy kauko kavita kay kaye kayla kazimierz kazuko kazuo kazuya keiko keith kelly ken
kenichi kenji kenneth kenta kerry kerstin kevin khadija khaled khalid kieran kim kimberly kinga
kiran kirill kirsi kirsten kirsti kirsty kjell kjersti klaas klara klaudia klaus klavdiya knud
knut koen kofi koji kolbjorn kolbrun konrad konstantin kornel kresimir kris krista kristen
kristian kristiina kristin kristina kristine kristjan kristof kristoffer krisztian krisztina
krystian krystyna krzysztof ksenia kumar kumiko kurt kveta kwame kyle kylie kyllikki lachlan
ladislav ladislava laila lajos lakshmi lan lara larisa larissa larry lars lasse laszlo lauha
laura laure lauren laurence laurent lauri laurie lea leah leandro lech leena lehel leif leila
lena lene lennart leo leon leona leonard leonardo leonid leonie leonor leopold lerato leroy
lesley leslie leszek leticia lev levi lewis liam libor lidia lidiya lieke lies liesbeth
lieselotte liisa lilian liliana lillian lily lina linda lindsay lindsey ling linnea linus lionel
lior lisa lisbeth liselotte liv livia liz ljubica lloyd loes logan lois lola lorant lorea lorena
lorenz lorenzo loretta lorraine lothar lotte louis louisa louise lourdes lubos luca lucas lucia
luciana luciano lucie lucien lucille lucinda lucjan lucy ludek ludmila ludovic ludwig ludwik
luigi luis luisa luise luiza luka lukas lukasz luke lutz luz lydia lynn lynne lyubov maaike
maarit maarten macarena machteld maciej madeleine madeline mads magda magdalena magdolna maggie
magnea magnhild magnus maha mahmoud mai maialen maija maike maite maja maksim malcolm malgorzata
malin malte malwina manfred manish manolis manon manuel manuela mara marc marcel marcela
marcelina marcella marcelo marcia marcin marcio marco marcos marcus marek maren marfa margaret
margareta margarete margarita margaux margit margot margret margrethe mari maria mariam marian
mariana marianne maribel marie mariel marija marijke marijn marika marilyn marin marina mario
marion marisa marisol marit marita maritta marius mariusz marja marjatta marjorie marketa markku
marko markus marleen marlene marta martha martin martina martine marton martti marty marvin mary
maryam marzena masako masashi massimo mate matej mateja mateo mateusz matheus mathias mathieu
mathilda mathilde matilda matilde matjaz matt matteo matthew matthias matti mattias matvei maud
maureen maurice mauricio maurits maurizio mauro maxim maxime maximilian maximiliano maxine maya
mayumi meera mehdi mehmet mei meike melanie melinda melissa mercedes mercy meredith merel merete
merja merle mervi mette mia micha michael michaela michal michel michele michelle michiel mick
mieczyslaw mieke mieszko miguel mihai mihail mihaly mijail mika mikael mikaela mike mikel
mikhail mikko miklos mikolaj milada milan mildred mile milena milica milos miloslav mimi min
mina minna mira miranda mireia mirela mirella miriam mirjam mirjana mirko miroslav miroslava
mirosław misaki mitchell mitsuko miyuki mladen mohamed mohammad mohammed mohan moises mona
monica monika monique montserrat morgane moritz morten moshe mscislaw muhammad murat muriel
murilo mustafa myriam nada nadezhda nadia nadine nancy nandor naoki naoko naomi narcyz nasir
natalia natalie natascha natasha nathalie nathan nathaniel nebojsa neha neil nelly nelson nenad
nerea nevena neville ngozi nicholas nick nicki nico nicola nicolai nicolas nicole nicoleta
nicolo niels nienke nigel niina nikanor nikhil nikita nikki niklas nikola nikolai nikolaj
nikolaos nikolaus nikolay niksa nils nina nino nnamdi noah noel noelia noemi nomsa noor nora
norbert noriko norma norman nuno nuria obinna odd oddvar oistein oksana ola olaf olafur olaia
olav oldrich ole oleg olena olesya olga olgierd oliver olivia olivier oliwia olof olu oluwaseun
omar onni oona oriol orlando orsolya orvokki oscar oskar osman osmo oswald otakar otavio othmar
otso ottilie otto ove owen oystein oyvind paavo pablo paco paivi pal palina pallavi palle paloma
pamela panu paola paolo pascal pascale pasi patrice patricia patricio patrick patrik patrizia
patrycja pau paul paula paulette paulina pauline paulo pavel pavla pavlina pawel pedro peggy
pekka penelope penny per perttu petar pete peter petr petra petri petros petter petteri phil
philip philipp philippa philippe phillip phoebe phyllis pia pierre pierrick pieter pilar pim
ping piotr pirjo pirkka pirkko piroska pleun polina pooja povl pradeep prakash praskovya predrag
preeti premysl priscila priya priyanka prokhor przemyslaw qing quentin quincy rachel radek radim
radka radmila radomir radoslav radoslaw radovan rafael rafaela rafal raffaele raffaella ragna
ragnar ragnhild rahul raija raimo raimund rainer raisa raj rajesh rakesh ralf ralph ramon ramona
randi randy raphael raquel rashid rasmus ratko raul rauno ravi ravil raymond rebecca rebekka
reem regina reginald regine reidar reidun reijo reiko reine reinhard reinhold reinier reino reka
rekha remco remedios remi remigiusz remy renan renata renate renato rene renee rens reto rhonda
ricardo riccardo richard rick ricky riikka rik rikard rikke riku rin risto rita ritu ritva
rizwan robert roberta roberto robin rocio roderick rodion rodney rodolfo rodrigo roger rogerio
rohan rohit roksana roland rolf romain roman romana romina ron ronald ronan rong ronja ronnie
roope roos roosa rosa rosalie rosalind rosanna rosario roseanne rosemarie rosemary rosie rosita
ross rostislav roswitha roxana roxanne roy rozalia ruben rudolf rudy rufus rune rupert ruslan
russell ruth ruud ryan ryo ryszard ryszarda saana saara sabina sabine sabrina saburo sachiko
sachin sadie said sakari sakura salla sally salma salome salvador salvatore sam samantha samara
samir samira sammy sampo samuel samuli sana sandeep sandor sandra sandrine sandro sanja sanjay
sanna sanne santeri santiago sara sarah sarka saskia satoshi satu saul saverio savva scott sean
sebastian sebastiano sebastien seija selena selma sem semyon seppo serafima serena serge sergei
sergey sergi sergio severin seweryn shan shane shannon sharon shaun shauna shawn sheila shelley
shelly sherry shigeru shintaro shirley shota shreya sibylle sidney siegfried sieglinde siem
sigrid sigridur sigrun sigurd sigurdur sigve siiri silje silke silvana silvester silvia silvio
simeon simo simon simona simone sini sinisa siobhan sipho siri sirkka sirpa sissel sjoerd
slavica slavko slawomir slobodan sneha snezana snorri sofia sofie sofija solange soledad solveig
solvi sonia sonja sophia sophie soren spartak spencer srdjan stacey stacy stan stanislav
stanislaw stanislawa stefan stefania stefanie stefano steffen stein steinar steinunn stella sten
stepan stephan stephane stephanie stephen steve steven stig stijn stipe stjepan stuart sumiko
sune sunil suresh susan susana susanna susanne susie suvi suzanne suzuki svein sveinn sven
svenja svetlana svyatoslav swati sybille sylvain sylvester sylvia sylvie sylwester synnove
szilvia szymon tadashi tadeu tadeusz tahir taina tais taisiya takashi takeshi takumi tamara
tamas taneli tania tanja tanvi tanya tapio tara taras tariq tarja taru tatiana tatjana ted teemu
tendai teodor terence teresa teresita tereza terhi terje tero terri terry terttu tessa tetsuya
teun thabo thais thea thelma themba theo theodor theodora theodore theresa therese thiago
thibault thierry thijs thomas thor thora thorsteinn thorsten thorvald tiago tibor tiffany
tihomir tiina tikhon til till tilly tilman tim timo timofei timothy timur tina tineke ting tino
tiziana tjeerd tobias toby todd toivo tom tomas tomasz tomi tomislav tommaso tommy tomoko tomomi
toni tonje tony topi tor torben torbjorn tore torill tormod torsten toshi toshiko tove tracey
tracy travis trevor trine tristan trond troy trudy truls truus trygve tuija tunde tuomas tuomo
tuovi turid turul tuula tyler tymon tyrone tytti udo ulf uliana ulla ulrich ulrika ulrike
umberto una unai unni unnur urban urho urs ursula urszula usko usman uta ute uwe vaclav vadim
valentin valentina valeria valerie valerij valerio valery valgerdur valtteri vanessa vappu varun
varvara vasco vasilisa vasily vedran veera vegard veikko veniamin venla vera verena verner
veronica veronika veronique vesa vesna vicenta vicente vicki vicky victoria vieno vigdis viggo
vijay vikram viktor viktoria viktorija vilhelm vilhjalmur vilho ville vilma vilmos vincent
vincenzo vinicius vinko viola violeta violetta virag virginie virpi virve vishal vit vitaly vito
vitor vittoria vittorio vivian viviana viviane vivien vlad vlada vladimir vladimira vladislav
vlasta voitto vojtech volker vsevolod waclaw wade wagner waldemar walid walter wanda warren
wawrzyniec wayne wei wendelin wendy werner weronika wieslaw wieslawa wiktor wilfried wilhelm
wilhelmina willem william willy wilma wim winfried winston witold wladyslaw wlodzimierz wojciech
wolf wolfgang wouter xavi xavier xiao ximena xin yael yago yakov yan yana yann yannick yaroslav
yasir yasmin yasmine yaw yefim yegor yelena yevgeny yoko yolanda yoshiko yosuke youssef yrjo
ysbrand yuki yukiko yulia yuliya yun yuri yusuf yves yvette yvonne zachary zainab zak zanele
zara zarko zbigniew zbynek zdena zdenek zdenka zdravko zdzislaw zelda zeljko zenon zhanna zhen
zinaida zita zlata zlatko zofia zola zoltan zoran zoya zsigmond zsofia zsolt zsuzsanna zubair
zuzana zvonimir zygmunt
"""
)

AMBIGUOUS = table(
    """
alex amber amparo angel april ari art asa august aurora autumn axel bill bo brad brooke carol
casey charlotte chase chelsea christian chuck clement clint cosima crystal dale dallas dawn dean
denis devin dolores don drew dustin else emma eve ever faith felicity finn flora florence frank
gene georgia glen gloria grace grant grazia guy hal harmony heath heather holly hope hunter ida
iris israel ivy jack jackson jade jan jasmine jason jay jean jesus jill joel jordan joy june kay
ken kim kit kris lance lane laurel laurie liberty lily lincoln logan lucas luz madison mai major
malt mara marina mario mark martin mary mason max may melody mercedes mercy merit miles morgan
nelson nick noel nova odd ola olive oliver orlando oscar otto owen paris parker pascal pat
patience patrick pearl penny per phoenix pierce pilar poppy porter prince randy ray reed rene
rich river rob robin rocky rod roman rosa rosario rose ross roy ruby rudy rusty ryan said
salvador sam san sandy santiago saul savannah scala scarlet scott selena sidney skip sky sofia
stan stella sterling stone sue summer sydney taylor ted terry theo tiffany til till tim tom tony
tor tore trinity troy tyler una urban van vera verona victor victoria viola violet virginia vito
wade warren wayne will willow winter wolf yuki
"""
)
"""Given names that are words, places or surnames as well; alone they say nothing."""
